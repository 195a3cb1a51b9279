"""The pages of the dashboard, a module each; ``base`` says how one is added."""
