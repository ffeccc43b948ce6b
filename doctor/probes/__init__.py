"""Scripts that touch what can hang or crash, each run in a disposable process of the examined interpreter.

A probe is a file with `def probe(arguments, step)`: it takes the arguments that its collector gives, says with `step("...")` what
it is about to do, and returns a dict that can be written as JSON. It imports nothing of ours and keeps to Python 3.8.
"""
