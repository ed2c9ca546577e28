"""One plain function per verb. The command line and the web are thin doors to these."""
