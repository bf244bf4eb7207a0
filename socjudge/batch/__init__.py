"""The Batch endpoint: the same evaluation at half the price, within a day."""
