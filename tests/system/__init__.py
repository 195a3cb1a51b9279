"""The whole system as it is deployed."""
