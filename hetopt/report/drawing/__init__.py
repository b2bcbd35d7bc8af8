"""Tables, labelled lines, bars and pictures: how reports are drawn."""
