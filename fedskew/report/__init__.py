"""The label-skew report card: one page that opens from disk, and the same page live."""
