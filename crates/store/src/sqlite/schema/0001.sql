-- Numbers that belong to the file as a whole.
CREATE TABLE meta (
  name  TEXT NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Rises by one with every key that is inserted or revoked, in the same transaction.
INSERT INTO meta (name, value) VALUES ('keys_epoch', 0);

-- The record. AUTOINCREMENT: a position is a cursor for readers and is never given out twice.
-- `tenant_position` is the cursor for readers of one tenant's log, whose gaps would tell them what
-- other tenants do.
CREATE TABLE events (
  position        INTEGER PRIMARY KEY AUTOINCREMENT,
  event_id        TEXT NOT NULL UNIQUE,
  tenant          TEXT NOT NULL,
  tenant_position INTEGER NOT NULL CHECK (tenant_position > 0),
  run_id          TEXT NOT NULL,
  sequence        INTEGER NOT NULL CHECK (sequence >= 0),
  type            TEXT NOT NULL,
  timestamp       TEXT NOT NULL,
  causation_id    TEXT,
  payload         TEXT NOT NULL
) STRICT;

-- A run belongs to one tenant. `run_id` leads, so that a run is found without its tenant as well.
CREATE UNIQUE INDEX events_by_run ON events (run_id, tenant, sequence);
CREATE UNIQUE INDEX events_by_tenant ON events (tenant, tenant_position);

-- Calls that were started and have not returned, and the process instance that runs each of them.
CREATE TABLE open_calls (
  tenant    TEXT NOT NULL,
  run_id    TEXT NOT NULL,
  call_id   TEXT NOT NULL,
  event_id  TEXT NOT NULL,
  agent_id  TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  instance  TEXT NOT NULL,
  PRIMARY KEY (tenant, run_id, call_id, event_id)
) STRICT, WITHOUT ROWID;

-- Tool sessions that were opened and not closed, and the process instance that holds each of them.
CREATE TABLE open_sessions (
  tenant     TEXT NOT NULL,
  run_id     TEXT NOT NULL,
  session_id TEXT NOT NULL,
  tool_id    TEXT NOT NULL,
  event_id   TEXT NOT NULL,
  instance   TEXT NOT NULL,
  PRIMARY KEY (tenant, run_id, session_id, tool_id)
) STRICT, WITHOUT ROWID;

-- API keys, without the keys. `roles` and `scopes` are JSON arrays of strings.
CREATE TABLE keys (
  id         TEXT NOT NULL PRIMARY KEY,
  name       TEXT NOT NULL,
  tenant     TEXT NOT NULL,
  principal  TEXT NOT NULL,
  digest     BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
  roles      TEXT NOT NULL,
  scopes     TEXT NOT NULL,
  created_at TEXT NOT NULL,
  expires_at TEXT,
  revoked_at TEXT
) STRICT;

-- The last good catalog of each source, as JSON text.
CREATE TABLE catalogs (
  source   TEXT NOT NULL PRIMARY KEY,
  catalog  TEXT NOT NULL,
  saved_at TEXT NOT NULL
) STRICT;
