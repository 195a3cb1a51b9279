"""The history database: its tables, migrations and the only code that writes it."""
