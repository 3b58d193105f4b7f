"""What every command and call is made of: options, help, the console, spending, and the checks of outputs."""
