"""The synthetic tickets and e-mails of the demo."""
