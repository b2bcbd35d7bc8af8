"""Plans that no other beats in time and price: as a table and a picture."""
