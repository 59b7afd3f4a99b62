"""What goes on in the terminal until Ctrl-C."""
