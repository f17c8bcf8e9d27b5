"""Loss and gradient of a batch: one signature, several backends."""
