"""What every room uses: records, counts, windows, words."""
