"""What is shown: tables, report card, figures, pages."""
