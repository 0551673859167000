"""Reports as one HTML file that works offline: `page` makes it, of elements that escape all they are given."""
