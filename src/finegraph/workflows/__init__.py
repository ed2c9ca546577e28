"""One plain function per command, in the file of its name; the folders hold the steps they are made of.

The command line and the web server only ask, call these and print.
"""
