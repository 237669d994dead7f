# make            build build/smolder
# make run        install what is missing, build, sample this machine until Ctrl-C, and answer queries
# make test       install what is missing, build, run every test; last line: N passed, N failed, …
# make help       the other targets

MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:

PREFIX  ?= /usr/local
DESTDIR ?=
SYSCONF ?= /etc
SAN     ?=
ARCH    ?= # arm64: what `make arm64` does for itself
BUILD   := build$(if $(ARCH),/$(ARCH))$(if $(SAN),/san)
VERSION := 0.1.0

CC      := $(if $(ARCH),$(CURDIR)/$(BUILD)/bin/cc,gcc)
ifneq ($(ARCH),)
AR      := $(CURDIR)/$(BUILD)/bin/ar
LD      := $(CURDIR)/$(BUILD)/bin/ld
endif
CLANG   := clang
BPFTOOL := $(firstword $(wildcard /usr/sbin/bpftool /usr/bin/bpftool) bpftool)

WARN := -Wall -Wextra -Wshadow -Wformat=2 -Wstrict-prototypes -Wmissing-prototypes \
	-Wwrite-strings -Wpointer-arith -Wundef -Wvla -Wimplicit-fallthrough \
	$(if $(CI),-Werror)
HARDEN := -fno-omit-frame-pointer -fstack-protector-strong -fPIE \
	$(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all,-D_FORTIFY_SOURCE=2)
CPPFLAGS := -D_GNU_SOURCE -DSMOLDER_VERSION='"$(VERSION)"' -Isrc -I$(BUILD)/gen
CFLAGS   ?= -O2 -g
ALL_CFLAGS := -std=gnu17 $(CFLAGS) $(WARN) $(HARDEN) $(CPPFLAGS) -MMD -MP
LDFLAGS  += -pie -Wl,-z,relro,-z,now -Wl,--as-needed $(if $(SAN),-fsanitize=$(SAN))
# Third-party code is linked statically where Debian has the archives: one file to copy to a host.
LDLIBS := -Wl,-Bstatic -lbpf -ldw -lelf -lsqlite3 -lprotobuf-c -liberty -lz -llzma -lbz2 -lzstd -lcap \
	-lseccomp -lyaml -lpcre2-8 -lmicrohttpd -lnettle -ljansson -lncursesw -ltinfo \
	-Wl,-Bdynamic -lpthread -lm

SRC   := $(sort $(wildcard src/*/*.c))
BPF   := $(sort $(wildcard src/bpf/*.bpf.c))
PROTO := $(sort $(wildcard src/*/*.proto))
ASSET := $(sort $(wildcard src/render/*.js src/render/*.css src/clickhouse/*.sql))
WEB   := web/build.mjs web/package-lock.json $(sort $(wildcard web/src/* web/src/*/*))

SKEL     := $(BPF:src/bpf/%.bpf.c=$(BUILD)/gen/%.skel.h)
PROTO_C  := $(PROTO:src/%.proto=$(BUILD)/gen/%.pb-c.c)
ASSET_O  := $(ASSET:src/%=$(BUILD)/gen/%.o)
WEB_H    := $(BUILD)/gen/web/assets_table.h
comma    := ,
LIB_SRC  := $(filter-out src/cli/main.c src/bpf/%,$(SRC))
LIB_OBJ  := $(LIB_SRC:%.c=$(BUILD)/%.o) $(PROTO_C:.c=.o) $(ASSET_O)
LIB      := $(BUILD)/libsmolder.a
BIN      := $(BUILD)/smolder

JOBS   = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc)) # unless it was said how many

UNIT  := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(sort $(wildcard tests/unit/test_*.c)))
FUZZ  := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
BENCH := $(patsubst bench/%.c,$(BUILD)/bench/%,$(sort $(wildcard bench/*.c)))

.PHONY: all run test test-vm test-fresh bench soak fuzz lint format install clean help deps deps-test
all: $(BIN)

# ---- what the machine needs --------------------------------------------------------------------

deps: build/.deps
deps-test: build/.deps build/.deps-test
build/.deps: tools/deps
	tools/deps build
	@mkdir -p $(@D) && touch $@
build/.deps-test: tools/deps tests/browser/package-lock.json tests/clickhouse/package-lock.json
	tools/deps test
	@mkdir -p $(@D) && touch $@

# ---- the BPF side: source -> object -> skeleton header -----------------------------------------

# Its programs are for any processor, but for the registers that they read.
MACHINE  := $(if $(filter arm64,$(ARCH)),aarch64,$(shell uname -m))
BPF_ARCH := -D__TARGET_ARCH_$(if $(filter aarch64,$(MACHINE)),arm64,x86) $(if $(ARCH),\
	-I$(BUILD)/sysroot/usr/$(MACHINE)-linux-gnu/include,) -I/usr/include/$(MACHINE)-linux-gnu
BPF_CC = $(CLANG) -target bpf -mcpu=v3 -O2 -g -Wall -Wextra $(if $(CI),-Werror) \
	-fdebug-prefix-map=$(CURDIR)=. $(BPF_ARCH) -Isrc -MMD -MP
$(BUILD)/gen/%.bpf.o: src/bpf/%.bpf.c
	@mkdir -p $(@D)
	$(BPF_CC) -c $< -o $@
$(BUILD)/tests/gen/%.bpf.o: tests/unit/%.bpf.c
	@mkdir -p $(@D)
	$(BPF_CC) -c $< -o $@
# Objects lie apart from other constants, at eight bytes as newer versions of bpftool have them.
# They are over a megabyte, of which a process reads one object or none; but the kernel maps what lies
# around each page that is read, and each of the three processes of `run` reads constants.
OBJECT_BYTES := static const char data[] __attribute__((section("bpf_objects"), aligned(8))) =
OBJECT_APART := -e 's/^\t(return \(const void \*\)|static const char data.*= )"\\$$/\t$(OBJECT_BYTES)"\\/' \
	-e 's/^(\\.*)?";$$/&\n\treturn data;/' -e '/^\treturn \(const void \*\)data;/d'
# bpftool links each object by itself, which leaves DWARF out: half of it, of no use at run time.
%.skel.h: %.bpf.o
	$(BPFTOOL) gen object $(@:.skel.h=.linked.o) $<
	$(BPFTOOL) gen skeleton $(@:.skel.h=.linked.o) name $(*F) > $@
	sed -E -i $(OBJECT_APART) $@

# ---- the same program for arm64, in build/arm64 -------------------------------------------------

ifeq ($(ARCH),)
.PHONY: arm64
arm64: build/arm64/bin/cc
	+@$(MAKE) $(JOBS) --no-print-directory ARCH=arm64 CI=1 build/arm64/smolder
build/arm64/bin/cc: tools/cross tools/deps
	tools/cross build/arm64
	@touch $@
endif

# ---- generated code and embedded assets --------------------------------------------------------

$(BUILD)/gen/%.pb-c.c $(BUILD)/gen/%.pb-c.h &: src/%.proto
	@mkdir -p $(BUILD)/gen
	protoc-c --proto_path=src --c_out=$(BUILD)/gen $<
$(BUILD)/gen/%.pb-c.o: $(BUILD)/gen/%.pb-c.c
	$(CC) $(ALL_CFLAGS) -w -c $< -o $@
# An asset NAME.EXT becomes the symbols _binary_NAME_EXT_start and _binary_NAME_EXT_end.
$(ASSET_O): $(BUILD)/gen/%.o: src/%
	@mkdir -p $(@D)
	cd $(<D) && $(LD) -r -b binary -z noexecstack -o $(CURDIR)/$@ $(<F)

# The page: bundled into $(BUILD)/web, and packed into a table that src/serve/assets.c includes.
web/node_modules/.installed: web/package-lock.json
	@command -v npm >/dev/null || { echo "the web page is built with node 18 or later and npm:" \
		"'make deps' installs them" >&2; exit 1; }
	cd web && npm ci --no-audit --no-fund --ignore-scripts --silent
	@touch $@
$(WEB_H): $(WEB) | web/node_modules/.installed
	node web/build.mjs $(BUILD)/web $@

# ---- the program -------------------------------------------------------------------------------

$(BUILD)/src/serve/assets.o $(BUILD)/fuzz/src/serve/assets.o: $(WEB_H)
$(BUILD)/src/%.o: src/%.c | $(SKEL) $(PROTO_C:.c=.h)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c $< -o $@
$(LIB): $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^
$(BIN): $(BUILD)/src/cli/main.o $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# The same without anything of the host's, for hosts with another libc or an old one. What the linker warns
# of, that libc may load libraries nevertheless, is what src/base/library.h keeps from happening.
STATIC := $(BUILD)/smolder-static
$(STATIC): $(BUILD)/src/cli/main.o $(LIB)
	$(CC) -static-pie -Wl,--no-warnings $(filter-out -pie,$(LDFLAGS)) -o $@ $^ $(filter-out -Wl$(comma)-Bdynamic,$(LDLIBS))

# ---- tests, fuzzers, measurements --------------------------------------------------------------

$(BUILD)/tests/unit/%: tests/unit/%.c $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Itests -I$(BUILD)/tests/gen $(LDFLAGS) -o $@ $< $(LIB) -lcmocka $(LDLIBS)
$(BUILD)/tests/unit/test_sources: $(BUILD)/tests/gen/syscalls.skel.h
$(BUILD)/bench/%: bench/%.c $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $< $(LIB) $(LDLIBS)

# Fuzzers see the whole library built by clang with its own instrumentation.
FUZZ_FLAGS := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
FUZZ_OBJ := $(LIB_SRC:%.c=$(BUILD)/fuzz/%.o) $(PROTO_C:$(BUILD)/gen/%.c=$(BUILD)/fuzz/gen/%.o)
$(BUILD)/fuzz/src/%.o: src/%.c | $(SKEL) $(PROTO_C:.c=.h)
	@mkdir -p $(@D)
	$(CLANG) -std=gnu17 -O1 -g -w $(FUZZ_FLAGS) $(CPPFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/fuzz/gen/%.o: $(BUILD)/gen/%.c
	@mkdir -p $(@D)
	$(CLANG) -std=gnu17 -O1 -g -w $(FUZZ_FLAGS) $(CPPFLAGS) -c $< -o $@
$(BUILD)/fuzz/libsmolder.a: $(FUZZ_OBJ) $(ASSET_O)
	@rm -f $@
	$(AR) rcs $@ $^
$(BUILD)/fuzz/fuzz_%: tests/fuzz/fuzz_%.c $(BUILD)/fuzz/libsmolder.a
	$(CLANG) -std=gnu17 -O1 -g -fsanitize=fuzzer,address,undefined $(CPPFLAGS) -o $@ $< \
		$(BUILD)/fuzz/libsmolder.a $(LDLIBS)

# The tests' build shares objects with the program; .deps first, since wildcard rules need tools.
test: deps-test
	+@$(MAKE) $(JOBS) --no-print-directory test-build
	BUILD=$(BUILD) tests/run $(TESTS)
test-build: $(BIN) $(UNIT) $(BUILD)/bench/store $(BUILD)/bench/changes $(if $(SAN),,$(FUZZ) san)

# The program under the sanitizers, for the tests that are hostile to it (tests/live/test_hostile.py).
# Beside the tools' own speed it need not be fast: -O1 halves the time it takes to build.
ifeq ($(SAN),)
.PHONY: san
san: $(WEB_H)
	+@$(MAKE) --no-print-directory SAN=address,undefined CFLAGS="-O1 -g" build/san/smolder
endif

# On every kernel that Debian has for us, or on KERNELS="/path/to/vmlinuz ...".
test-vm: deps-test
	+@$(MAKE) --no-print-directory $(BIN)
	BUILD=$(BUILD) SMOLDER_SOAK=1 SMOLDER_KERNELS="$(KERNELS)" tests/run tests/vm/

# What a new user does, in a Debian that is made for it: STAGES="root user sudo test usertest deb
# tarball container", or some; TESTS="hostile truth": of the tests only these.
test-fresh:
	tools/deps fresh
	tests/fresh $(STAGES)

fuzz: deps-test
	+@$(MAKE) --no-print-directory $(FUZZ)
	BUILD=$(BUILD) tests/fuzz/test_fuzz.py --seconds $(or $(SECONDS),300)

bench: deps-test
	+@$(MAKE) --no-print-directory $(BIN) $(BENCH)
	BUILD=$(BUILD) bench/run $(BENCHES)

soak: deps-test
	+@$(MAKE) --no-print-directory test-build
	BUILD=$(BUILD) SMOLDER_SOAK=1 tests/run $(TESTS)

run: deps
	+@$(MAKE) $(JOBS) --no-print-directory $(BIN)
	tools/run $(BIN) $(ARGS)

lint: deps-test
	+@$(MAKE) --no-print-directory $(BIN)
	tools/lint $(BUILD) $(CPPFLAGS)
format:
	clang-format -i $(SRC) $(wildcard src/*/*.h tests/*/*.c tests/*/*.h bench/*.c)
	cd web && node_modules/.bin/biome check --write .

install: $(BIN)
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/smolder
	for m in man/*.1; do install -D -m 644 $$m $(DESTDIR)$(PREFIX)/share/man/man1/$${m##*/}; done
	install -D -m 644 LICENSE $(DESTDIR)$(PREFIX)/share/doc/smolder/LICENSE
	@mkdir -p $(BUILD)/install
	sed 's#/usr/local/bin/#$(PREFIX)/bin/#' contrib/smolder.service > $(BUILD)/install/smolder.service
	install -D -m 644 $(BUILD)/install/smolder.service \
		$(DESTDIR)$(PREFIX)/lib/systemd/system/smolder.service
	install -D -m 644 contrib/smolder.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/smolder.conf
	test -e $(DESTDIR)$(SYSCONF)/smolder.yaml || \
		install -D -m 644 contrib/smolder.yaml $(DESTDIR)$(SYSCONF)/smolder.yaml
	for s in bash zsh fish; do tools/completions $$s $(BIN) > $(BUILD)/install/completion.$$s || exit 1; done
	install -D -m 644 $(BUILD)/install/completion.bash \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/smolder
	install -D -m 644 $(BUILD)/install/completion.zsh \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_smolder
	install -D -m 644 $(BUILD)/install/completion.fish \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/smolder.fish

# ---- packages ----------------------------------------------------------------------------------

.PHONY: deb tarball
deb: deps
	tools/deps package
	+@$(MAKE) $(JOBS) --no-print-directory $(BIN)
	rm -rf $(BUILD)/deb $(BUILD)/smolder_*.deb
	install -d $(BUILD)/deb
	cp -r contrib/debian $(BUILD)/deb/debian
	cd $(BUILD)/deb && DEB_RULES_REQUIRES_ROOT=no debian/rules binary TREE=$(CURDIR)

tarball: deps
	+@$(MAKE) $(JOBS) --no-print-directory $(BIN) $(STATIC)
	rm -f $(BUILD)/smolder-*.tar.gz
	+tools/tarball $(BUILD) $(VERSION)

clean:
	rm -rf build

help:
	@sed -n '1,4p' Makefile | cut -c3-
	@echo 'make bench      cost and speed beside perf, bpftrace, flamegraph.pl, in one run'
	@echo 'make soak       the long forms of the tests'
	@echo 'make test-vm    the BPF side on Linux 5.10, 6.1 and 6.12, in a virtual machine'
	@echo 'make test-fresh make run and make test in a fresh Debian; root; STAGES="root user sudo test usertest deb tarball container"'
	@echo 'make fuzz       every fuzzer for SECONDS=300'
	@echo 'make arm64      the program for arm64 in build/arm64, by Debian'\''s cross compiler'
	@echo 'make lint       clang-tidy, cppcheck, tsc, biome and the format'
	@echo 'make install    PREFIX=/usr/local DESTDIR='
	@echo 'make deb        build/smolder_$(VERSION)_amd64.deb: apt install it'
	@echo 'make tarball    for other distributions: build/smolder-$(VERSION)-linux-x86_64.tar.gz, and -static.tar.gz'
	@echo 'make SAN=address,undefined test'

-include $(shell find $(BUILD) -path build/fresh -prune -o -name '*.d' -type f -print 2>/dev/null)
