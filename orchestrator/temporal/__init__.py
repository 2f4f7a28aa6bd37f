"""Run toolroute as durable Temporal activities and workflows."""
