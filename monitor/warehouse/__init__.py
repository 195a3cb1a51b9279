"""Reading the relations of the warehouse: only counts leave it."""
