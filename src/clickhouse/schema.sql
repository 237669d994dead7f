-- What smolder keeps in ClickHouse. `smolder serve --store clickhouse://… --migrate yes` runs it, and prints it with
-- --migrate print. Each statement ends with a semicolon at the end of a line. Of a comment that begins with a 20 and
-- a colon, what follows is part of the statement for servers of version 20 and later.
--
-- A message of a collector (src/profile/window.h) becomes rows of `windows`: one that is its head, which says what
-- the message was and what its collector has counted so far, and one for each of its series, with everything that
-- was sampled of it in that window. All rows of a message are of one day and are inserted at once, so they are there
-- or they are not. Nothing is ever changed; days are dropped whole.
--
-- A message that a collector sent to two servers may be there twice. Each time its rows have another `copy`; those
-- who read count the copy with the highest number (src/clickhouse/messages.h).
--
-- Frames, stacks and sets of labels go by 128-bit hashes of what they are. What a hash means is told once a day, in
-- the day of the windows that use it: so every day can be read, and dropped, by itself.

CREATE TABLE IF NOT EXISTS windows (
	day Date,                          -- UTC, of start_ms
	type String /*20: CODEC(ZSTD(1))*/,                       -- 'cpu'
	head UInt8,                        -- 1: the message itself
	service String /*20: CODEC(ZSTD(1))*/,                    -- the series' label of that name; '': it has none
	series FixedString(16) /*20: CODEC(ZSTD(1))*/,
	start_ms UInt64 /*20: CODEC(DoubleDelta, ZSTD(1))*/,      -- since 1970
	length_ms UInt32 /*20: CODEC(ZSTD(1))*/,
	unit String /*20: CODEC(ZSTD(1))*/,                       -- 'nanoseconds'
	period UInt64 /*20: CODEC(ZSTD(1))*/,                     -- value of one count; 0: it varies
	copy UInt64 /*20: CODEC(Delta, ZSTD(1))*/,
	samples UInt64 /*20: CODEC(T64, ZSTD(1))*/,               -- sum of counts …
	total UInt64 /*20: CODEC(ZSTD(1))*/,                      -- … of values, so that timelines read no arrays …
	kernel UInt64 /*20: CODEC(ZSTD(1))*/,                     -- … and of those whose innermost frame is the kernel's
	-- Of a series, one element for each stack:
	stacks Array(FixedString(16)) /*20: CODEC(ZSTD(1))*/,     -- zeros: no frames
	counts Array(UInt64) /*20: CODEC(T64, ZSTD(1))*/,
	extras Array(UInt64) /*20: CODEC(ZSTD(1))*/,              -- value - count * period; []: all are 0
	-- When each sample was taken, in steps of 20 ms since start_ms, stack by stack; []: not known.
	times Array(UInt16) /*20: CODEC(Delta, ZSTD(1))*/,
	-- Of a message:
	instance FixedString(16) /*20: CODEC(ZSTD(1))*/,          -- of its collector
	sequence UInt64 /*20: CODEC(Delta, ZSTD(1))*/,
	part UInt32 /*20: CODEC(ZSTD(1))*/,
	received_ms UInt64 /*20: CODEC(Delta, ZSTD(1))*/,
	base UInt64 /*20: CODEC(ZSTD(1))*/,                       -- counts of its type's samples: struct window_counts
	taken UInt64 /*20: CODEC(Delta, ZSTD(1))*/,
	lost Array(UInt64) /*20: CODEC(ZSTD(1))*/                 -- by reason
) ENGINE = MergeTree PARTITION BY day
ORDER BY (type, head, service, intDiv(start_ms, 3600000), series, start_ms)
SETTINGS index_granularity = 512;

-- What a stack is: its frames, the root first.
CREATE TABLE IF NOT EXISTS stacks (
	day Date,
	stack FixedString(16) /*20: CODEC(ZSTD(1))*/,
	frames Array(FixedString(16)) /*20: CODEC(ZSTD(1))*/
) ENGINE = ReplacingMergeTree PARTITION BY day
ORDER BY stack
SETTINGS index_granularity = 512;

CREATE TABLE IF NOT EXISTS frames (
	day Date,
	frame FixedString(16) /*20: CODEC(ZSTD(1))*/,
	name String /*20: CODEC(ZSTD(1))*/,
	kind UInt8,                        -- enum frame_kind
	address UInt64,
	source String /*20: CODEC(ZSTD(1))*/,
	line UInt32,
	begins UInt32,                     -- the line on which the function begins
	module String /*20: CODEC(ZSTD(1))*/,                     -- '': none
	build_id String /*20: CODEC(ZSTD(1))*/,
	path String /*20: CODEC(ZSTD(1))*/,
	module_start UInt64,
	module_end UInt64,
	module_offset UInt64
) ENGINE = ReplacingMergeTree PARTITION BY day
ORDER BY frame
SETTINGS index_granularity = 512;

CREATE TABLE IF NOT EXISTS series (
	day Date,
	series FixedString(16) /*20: CODEC(ZSTD(1))*/,
	label_names Array(String) /*20: CODEC(ZSTD(1))*/, -- sorted
	label_values Array(String) /*20: CODEC(ZSTD(1))*/
) ENGINE = ReplacingMergeTree PARTITION BY day
ORDER BY series
SETTINGS index_granularity = 512;

-- Which samples belong to which spans of traces: a row for each span and series of a message.
CREATE TABLE IF NOT EXISTS spans (
	day Date,
	type String /*20: CODEC(ZSTD(1))*/,
	start_ms UInt64 /*20: CODEC(DoubleDelta, ZSTD(1))*/,
	length_ms UInt32,
	unit String /*20: CODEC(ZSTD(1))*/,
	period UInt64 /*20: CODEC(ZSTD(1))*/,
	instance FixedString(16) /*20: CODEC(ZSTD(1))*/,
	sequence UInt64 /*20: CODEC(Delta, ZSTD(1))*/,
	part UInt32,
	copy UInt64 /*20: CODEC(Delta, ZSTD(1))*/,
	trace FixedString(16),             -- zeros: it is not known
	span FixedString(8),
	series FixedString(16) /*20: CODEC(ZSTD(1))*/,
	stacks Array(FixedString(16)) /*20: CODEC(ZSTD(1))*/,
	counts Array(UInt64) /*20: CODEC(ZSTD(1))*/,
	totals Array(UInt64) /*20: CODEC(ZSTD(1))*/               -- values
) ENGINE = MergeTree PARTITION BY day
ORDER BY (type, intDiv(start_ms, 3600000), trace, span)
SETTINGS index_granularity = 512;

-- What each collector took and what was stored of it on days that have been dropped: told before that is done, by
-- whoever does it, so it may be there several times. Rows of a day that is still there do not count.
CREATE TABLE IF NOT EXISTS accounts (
	day Date,
	type String,
	instance FixedString(16),
	first_ms UInt64,                   -- the day's first window
	base UInt64,
	taken UInt64,
	lost Array(UInt64),
	stored UInt64
) ENGINE = ReplacingMergeTree
ORDER BY (type, instance, day);

-- What collectors found wrong; of what was told of one, the latest is true (src/profile/finding.h has its body).
CREATE TABLE IF NOT EXISTS findings (
	day Date,
	instance FixedString(16),
	id UInt64,
	began_ms UInt64,
	until_ms UInt64,
	received_ms UInt64,
	body String /*20: CODEC(ZSTD(1))*/
) ENGINE = ReplacingMergeTree(until_ms) PARTITION BY day
ORDER BY (instance, id);
