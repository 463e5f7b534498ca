"""The program that serves models of Python. The server has these files in its binary; here they are to read, and for
editors."""
