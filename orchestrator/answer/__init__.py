"""From what the stages found to a Decision: order, reasons, warnings, and what fits within the token cap."""
