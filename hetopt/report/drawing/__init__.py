"""Drawing of reports: tables, labelled lines, bars and pictures."""
