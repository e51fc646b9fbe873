# The commands of this project. `make` alone lists them.

SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
# The rooms that the wheel has, out of the one list in pyproject.toml.
ROOMS := $(shell sed -n 's/^packages = \[\(.*\)\]/\1/p' pyproject.toml | tr -d '",')
PYTHON_ROOMS := $(ROOMS) tests bench scripts
ARGS ?=
ROUNDS ?= 20
PART ?= 1/1
# The demo encodes what its two encoders send, in real time: beside other tests it falls behind.
ALONE := tests/e2e/test_demo.py
# What pyright said beside the last `make test`.
TYPES := .venv/.types

.PHONY: help pictures drawings run demo demo-hosts runtime dist deb image setup tools fmt lint types house compiled quick test spare-types all-tests e2e bench fuzz prove proofs cover web requirements advisories images monitoring engines clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: runtime ## serve: RTMP and RTMPS in, HLS and a watch page out (ARGS="--http 127.0.0.1:9000")
	@exec $(BIN)/headend serve $(ARGS)

demo: runtime ## serve, and send a moving test picture from two encoders, one of which fails
	@exec $(BIN)/headend demo $(ARGS)

demo-hosts: runtime ## the same over two hosts of each role, PostgreSQL, Redis and a bucket; one is killed every 30 s
	@scripts/test-tools.sh engines
	@exec $(BIN)/python -m scripts.demo_hosts $(ARGS)

# Both fill the same folder; each is instant when nothing changed.
runtime: ## make .venv with what running out of the sources needs (as a service: docs/deploy.md)
	@scripts/environment.sh .venv requirements/runtime.txt --project

setup: ## make .venv with the tools for development and tests
	@scripts/environment.sh .venv requirements/dev.txt --project

dist: setup ## wheel, sources, bill of materials and notices, in dist/
	@scripts/dist.sh

deb: dist ## a package of Debian for this machine's Python, in dist/
	@scripts/deb.sh

image: ## the image `headend`, by docker, podman or buildah
	@scripts/image.sh $(ARGS)

tools: ## get the foreign software that the tests talk to, through apt
	@scripts/test-tools.sh

fmt: setup ## format the code, and apply the fixes of ruff
	$(BIN)/ruff format $(PYTHON_ROOMS)
	$(BIN)/ruff check --fix $(PYTHON_ROOMS)

lint: setup ## ruff: rules and format
	$(BIN)/ruff check $(PYTHON_ROOMS)
	$(BIN)/ruff format --check $(PYTHON_ROOMS)

types: setup ## pyright, strict
	$(BIN)/pyright

house: setup ## import rules, and the project's own rules (tests/test_house.py)
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/test_house.py

# Services and engines start hundreds of times: none shall compile the code anew.
compiled: setup ## compile the code
	@$(BIN)/python -m compileall -q $(ROOMS)

quick: setup ## the pure ring: no process, socket, browser or database server
	@scripts/tests.sh 2 --quick $(ARGS)

test: setup tools ## everything a change must pass
	@rm -f $(TYPES)
	@$(MAKE) --jobs=2 --keep-going spare-types all-tests; code=$$?; \
		echo "pyright:"; cat $(TYPES); [ $$code = 0 ] || echo "make test: failed, look above"; exit $$code

# pyright takes what the tests leave of the cores, which is enough for it. It ends long before them:
# what it found is shown at the end.
spare-types: setup ## pyright, with what others leave of the cores
	@nice -n 15 $(MAKE) types > $(TYPES) 2>&1

all-tests: compiled lint house ## the linters and every test, without pyright
	@HEADEND_TEST_SCALE=$${HEADEND_TEST_SCALE:-3} scripts/tests.sh 4 -m "not prove" --ignore=$(ALONE) $(ARGS)
	@HEADEND_TEST_SCALE=$${HEADEND_TEST_SCALE:-2} $(BIN)/pytest -q -m "not prove" $(ALONE)

e2e: setup tools ## only the whole service against foreign software
	$(BIN)/pytest -m "e2e and not prove" $(ARGS)

bench: setup tools ## only the peers that are measured or watched (pyrtmp)
	$(BIN)/pytest tests/bench $(ARGS)

fuzz: setup ## only the property tests, with many examples, round after round with new ones (ROUNDS=20)
	@round=0; while [ $$round -lt $(ROUNDS) ]; do \
		round=$$((round + 1)); echo "round $$round of $(ROUNDS)"; \
		$(BIN)/pytest -q -m "hypothesis and not e2e" --hypothesis-profile=many $(ARGS) || exit; \
	done

prove: ROUNDS := 1
prove: test engines fuzz proofs ## all checks: `make test`, `make engines`, `make fuzz` once, `make proofs`

proofs: setup compiled ## the checks that take long; writes docs/proofs.md (or in parts of an hour: PART=1/7 to 7/7)
	@scripts/test-tools.sh all
	PROOFS=$${PROOFS:-docs/proofs.md} $(BIN)/pytest -m prove --part $(PART) $(ARGS)

# What an installation of several hosts runs on, in the place of SQLite, a folder and memory.
# Of these folders, what has anything to do with them (tests/support/shared_engines.py).
SHARED := tests/api tests/transcode/vod/test_job_formats.py

engines: setup tools ## the contract of the API, and files as people make them, on PostgreSQL, Redis and a bucket
	@HEADEND_TEST_ENGINES=shared HEADEND_TEST_SCALE=$${HEADEND_TEST_SCALE:-3} scripts/tests.sh 3 -m "not prove" $(SHARED) $(ARGS)

cover: setup tools ## lines and branches of each package that its own tests reach
	@scripts/cover.sh $(ARGS)

web: setup ## build the player and pages from web/ into the served bundle
	@scripts/web.sh

pictures: setup ## retake the screenshots of docs/console.md in Chromium
	@scripts/test-tools.sh all
	HEADEND_TEST_PICTURES=docs/pictures $(BIN)/pytest -q -m prove tests/e2e/test_console_walk.py -k mouse $(ARGS)

drawings: setup ## draw docs/pictures/*.svg from the texts in docs/drawings
	@$(BIN)/python -m scripts.drawings

requirements: ## compile requirements/ from pyproject.toml anew (needs uv; ARGS=--upgrade)
	@scripts/pins.sh $(ARGS)

advisories: setup ## known vulnerabilities of what is pinned, bundled and served; fails if not all could be checked
	@$(BIN)/python -m scripts.advisories requirements/runtime.txt requirements/dev.txt web/package-lock.json requirements/ffmpeg.toml

monitoring: setup ## check the alert rules and the dashboard in deploy/monitoring (needs promtool: apt-get install prometheus)
	$(BIN)/pytest -q tests/deploy/test_monitoring.py

images: ## write the digests of the images that deploy/ builds on to deploy/.env (needs Docker or skopeo)
	@scripts/images.sh

clean: ## remove what was built or fetched, never ./data
	rm -rf .venv bench/pyrtmp/.venv bench/players/.venv bench/nms/node_modules bench/players/node_modules web/node_modules dist
	rm -rf .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
