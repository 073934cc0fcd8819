# converts a sample to out/sample
sample:
    ./run_local.sh

# ruff, mypy and the quick tests, or what is given to pytest
test *arguments:
    ./run_tests.sh {{arguments}}

# the tests that take longer
slow:
    ./run_tests.sh -m slow -n 2 --dist loadscope

# documents that are made from the code
documents:
    .venv/bin/python -m tests.python_reference
    .venv/bin/python -m tests.option_documents

# everything, as CI does
ci:
    .ci/run
