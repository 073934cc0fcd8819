"""What people read: the report, thumbnails, data card, Croissant."""
