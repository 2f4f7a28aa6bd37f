"""What a tool's texts must not say: praise that asks to be chosen, instructions, hidden characters."""
