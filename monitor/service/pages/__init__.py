"""The pages of the dashboard, one module each; ``base`` says how to add one."""
