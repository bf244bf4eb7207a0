"""What a cell shows with buttons: one module a panel."""
