run:
