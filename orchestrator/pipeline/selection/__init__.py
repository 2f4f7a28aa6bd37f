"""Selection: from a ranked state to a Decision."""
