"""Measure routing quality and fit calibration."""
