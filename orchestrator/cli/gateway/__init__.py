"""Commands that put toolroute to work on a machine: `setup`, `serve`, `ui`, `doctor`."""
