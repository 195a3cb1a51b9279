"""Distribution tests on counts, and drift reports on samples."""
