"""Static plots of reports and studies, for print: SVG and PNG."""
