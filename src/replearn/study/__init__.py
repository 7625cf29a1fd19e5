"""What labs share before they fit: protocols, pilots, commitments, synthetic populations."""
