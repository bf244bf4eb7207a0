"""Write frames and charts as one self-contained page."""
