"""How results look: tables as text, HTML, Markdown and LaTeX, progress and log. It knows no job."""
