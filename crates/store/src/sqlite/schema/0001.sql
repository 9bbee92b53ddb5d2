-- Numbers that belong to the file as a whole.
CREATE TABLE meta (
  name  TEXT NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- An epoch rises by one with every change of the keys or of the pins, in the same transaction, and
-- `cancellations` with every request to cancel runs. `session_notices` is the last number of one. Client
-- sessions opened up to `sessions_ended` (milliseconds since the Unix epoch) have ended. The other
-- numbers are the idempotent calls and their bytes.
INSERT INTO meta (name, value)
  VALUES ('keys_epoch', 0), ('pins_epoch', 0), ('cancellations', 0),
         ('session_notices', 0), ('sessions_ended', 0),
         ('once_calls', 0), ('once_bytes', 0);

-- The event log. A position is a cursor for readers. It is never assigned twice, because the last
-- event of a tenant, and so the last of all, is never pruned. `tenant_position` is the cursor for
-- readers of one tenant's log. It has no gaps, which would reveal the activity of other tenants.
--
-- Small forms (`sqlite/compact.rs`): an id is 16 bytes when it is a UUID, a type is its number, a
-- timestamp is milliseconds since the Unix epoch. A payload is the text of its form with the parts in
-- place of the marks. Each may be a text as well, the payload then without a form.
CREATE TABLE events (
  position        INTEGER PRIMARY KEY,
  event_id        ANY NOT NULL,
  tenant          TEXT NOT NULL,
  tenant_position INTEGER NOT NULL CHECK (tenant_position > 0),
  run_id          ANY NOT NULL,
  sequence        INTEGER NOT NULL CHECK (sequence >= 0),
  type            ANY NOT NULL,
  timestamp       ANY NOT NULL,
  causation_id    ANY,
  form            INTEGER,
  payload         ANY NOT NULL,
  -- SHA-256 over the texts of the columns above, except `position`, and the hash of the event before
  -- it in its tenant's log.
  hash            BLOB NOT NULL CHECK (length(hash) = 32),
  -- The number of the process in `writers` that wrote it. Reused once that row is gone.
  writer          INTEGER NOT NULL,
  -- The position of the `agent.toolCalled` whose call this event ends.
  closes          INTEGER
) STRICT;

-- A run belongs to one tenant. `run_id` leads, so that a run is found without its tenant as well.
CREATE INDEX events_by_run ON events (run_id, tenant);
CREATE UNIQUE INDEX events_by_tenant ON events (tenant, tenant_position);

-- The forms of payloads. In `text`, the characters U+0001 to U+0004 are marks: a UUID, a SHA-256, a
-- number, another text.
CREATE TABLE forms (
  number INTEGER PRIMARY KEY,
  text   TEXT NOT NULL UNIQUE
) STRICT;

-- The processes whose open calls are not all in `open_calls`: a call of an event of this writer after
-- `clear_to` is open unless a later event closes it.
CREATE TABLE writers (
  number   INTEGER PRIMARY KEY,
  instance TEXT NOT NULL,
  clear_to INTEGER NOT NULL CHECK (clear_to >= 0)
) STRICT;

-- Calls that were started, have not returned, and cannot be derived from `writers`. `instance` is the
-- process that runs each of them.
CREATE TABLE open_calls (
  position  INTEGER PRIMARY KEY,
  tenant    TEXT NOT NULL,
  run_id    TEXT NOT NULL,
  call_id   TEXT NOT NULL,
  event_id  TEXT NOT NULL,
  agent_id  TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  instance  TEXT NOT NULL
) STRICT;

CREATE INDEX open_calls_by_call ON open_calls (tenant, run_id, call_id);

-- Tool sessions that were opened and not closed, and the process instance that holds each of them.
-- `position` is that of the opening event.
CREATE TABLE open_sessions (
  tenant     TEXT NOT NULL,
  run_id     TEXT NOT NULL,
  session_id TEXT NOT NULL,
  tool_id    TEXT NOT NULL,
  position   INTEGER NOT NULL,
  instance   TEXT NOT NULL,
  PRIMARY KEY (tenant, run_id, session_id, tool_id)
) STRICT, WITHOUT ROWID;

-- API keys, without the keys. `roles`, `scopes` and `makers` are JSON arrays of strings. `replaces` is
-- the key that this one replaces; `makers` are the principals, other than its own, that handled it.
-- `session` is the credential of a browser session, as JSON; such a row is no key.
-- `changed` is the epoch of the last change.
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
  revoked_at TEXT,
  last_used_at TEXT,
  replaces   TEXT,
  makers     TEXT NOT NULL,
  session    TEXT,
  changed    INTEGER NOT NULL
) STRICT;

CREATE INDEX keys_by_change ON keys (changed);

-- The last valid catalog of each source, as JSON text.
CREATE TABLE catalogs (
  source   TEXT NOT NULL PRIMARY KEY,
  catalog  TEXT NOT NULL,
  saved_at TEXT NOT NULL
) STRICT;

-- Signed statements about the state of a tenant's chain, themselves a chain per tenant.
CREATE TABLE checkpoints (
  tenant     TEXT NOT NULL,
  number     INTEGER NOT NULL CHECK (number > 0),
  kind       TEXT NOT NULL,
  position   INTEGER NOT NULL CHECK (position > 0),
  hash       BLOB NOT NULL CHECK (length(hash) = 32),
  signed_at  TEXT NOT NULL,
  public_key BLOB NOT NULL CHECK (length(public_key) = 32),
  prev       BLOB NOT NULL CHECK (length(prev) = 32),
  signature  BLOB NOT NULL CHECK (length(signature) = 64),
  PRIMARY KEY (tenant, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX checkpoints_by_position ON checkpoints (tenant, position);

-- The progress of the readers of the whole log: forwarders and anchors.
CREATE TABLE cursors (
  name          TEXT NOT NULL PRIMARY KEY,
  position      INTEGER NOT NULL CHECK (position >= 0),
  moved_at      TEXT,
  failing_since TEXT,
  failures      INTEGER NOT NULL DEFAULT 0,
  problem       TEXT
) STRICT, WITHOUT ROWID;

-- Credentials. `sealed` holds the values, encrypted and authenticated together with all other columns
-- except the two times. `principal` is empty for a tenant's own. `kind` and `audiences` are JSON.
CREATE TABLE credentials (
  id         TEXT NOT NULL PRIMARY KEY,
  tenant     TEXT NOT NULL,
  principal  TEXT NOT NULL,
  name       TEXT NOT NULL,
  kind       TEXT NOT NULL,
  audiences  TEXT NOT NULL,
  created_at TEXT NOT NULL,
  rotated_at TEXT NOT NULL,
  expires_at TEXT,
  revision   INTEGER NOT NULL CHECK (revision > 0),
  sealed     BLOB NOT NULL,
  UNIQUE (tenant, principal, name)
) STRICT;

-- Runs of workflows. `inputs` is the data to resume a run in another process; it is deleted when the
-- run ends, and sealed where there is a key. `cancelled` is set by a request for cancellation.
CREATE TABLE runs (
  tenant     TEXT NOT NULL,
  call_id    TEXT NOT NULL,
  run_id     TEXT NOT NULL,
  tool_id    TEXT NOT NULL,
  digest     TEXT NOT NULL,
  principal  TEXT NOT NULL,
  key_id     TEXT,
  parent     TEXT,
  state      TEXT NOT NULL,
  code       TEXT,
  durable    INTEGER NOT NULL,
  inputs     BLOB,
  instance   TEXT NOT NULL,
  adopted    INTEGER NOT NULL DEFAULT 0,
  cancelled  INTEGER NOT NULL DEFAULT 0,
  started_at TEXT NOT NULL,
  ended_at   TEXT,
  PRIMARY KEY (tenant, call_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_by_tenant ON runs (tenant, started_at);
CREATE INDEX runs_by_start ON runs (started_at);
CREATE INDEX runs_by_run ON runs (tenant, run_id, started_at, call_id);
CREATE INDEX runs_by_instance ON runs (instance) WHERE state = 'running';

-- The results of calls in unfinished runs.
CREATE TABLE run_results (
  tenant  TEXT NOT NULL,
  call_id TEXT NOT NULL,
  step    TEXT NOT NULL,
  result  BLOB NOT NULL,
  PRIMARY KEY (tenant, call_id, step)
) STRICT, WITHOUT ROWID;

-- Pins of upstream tools: the form that was approved last, and the newest unapproved form. A digest is
-- the SHA-256 of the document in the next column. `approved_by` and its tenant are NULL for a first form
-- that was trusted automatically. `change_count` counts the unapproved forms of an approved tool.
CREATE TABLE pins (
  source          TEXT NOT NULL,
  tool            TEXT NOT NULL,
  approved_digest BLOB CHECK (length(approved_digest) = 32),
  approved        TEXT,
  approved_at     TEXT,
  approved_by     TEXT,
  approved_tenant TEXT,
  seen_digest     BLOB CHECK (length(seen_digest) = 32),
  seen            TEXT,
  seen_at         TEXT,
  change_count    INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (source, tool),
  CHECK (approved_digest IS NOT NULL OR seen_digest IS NOT NULL)
) STRICT;

-- Forms that were approved before that of the pin, and remain approved.
CREATE TABLE earlier_forms (
  source          TEXT NOT NULL,
  tool            TEXT NOT NULL,
  digest          BLOB NOT NULL CHECK (length(digest) = 32),
  form            TEXT NOT NULL,
  approved_at     TEXT NOT NULL,
  approved_by     TEXT,
  approved_tenant TEXT,
  PRIMARY KEY (source, tool, digest)
) STRICT;

-- Approval requests. `body` is the whole request except the displayable arguments, which are in
-- `shown`, sealed. `live` is the fingerprint of the call while the request is in force.
CREATE TABLE approvals (
  tenant      TEXT NOT NULL,
  id          TEXT NOT NULL,
  principal   TEXT NOT NULL,
  state       TEXT NOT NULL,
  live        TEXT,
  revision    INTEGER NOT NULL,
  change      INTEGER NOT NULL UNIQUE,
  created_at  TEXT NOT NULL,
  expires_at  TEXT NOT NULL,
  body        TEXT NOT NULL,
  shown       BLOB,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX approvals_live ON approvals (tenant, live) WHERE live IS NOT NULL;
CREATE INDEX approvals_overdue ON approvals (expires_at) WHERE live IS NOT NULL;
CREATE INDEX approvals_pending ON approvals (tenant, principal) WHERE state = 'pending';
CREATE INDEX approvals_by_tenant ON approvals (tenant, created_at);
CREATE INDEX approvals_by_creation ON approvals (created_at);

-- One row: the fingerprint key, sealed where there is a seal key, and the last assigned change
-- number.
CREATE TABLE approval_state (
  id     INTEGER PRIMARY KEY CHECK (id = 1),
  key    BLOB,
  change INTEGER NOT NULL
) STRICT;

INSERT INTO approval_state (id, change) VALUES (1, 0);

-- The readers of changes, and the last change that each has acknowledged.
CREATE TABLE approval_readers (
  reader TEXT PRIMARY KEY,
  change INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Idempotent calls and their answers. `key` is a hash of the caller's idempotency key; `call`
-- identifies the call and `answer` is its answer, both sealed. A running call has the instance that
-- runs it; `lost` means that its process ended before it did. `until` and `day` count from the Unix
-- epoch, in milliseconds and in UTC days.
CREATE TABLE once_calls (
  id        INTEGER PRIMARY KEY,
  tenant    TEXT NOT NULL,
  principal TEXT NOT NULL,
  key       BLOB NOT NULL CHECK (length(key) = 32),
  state     TEXT NOT NULL CHECK (state IN ('running', 'ended', 'spent', 'lost')),
  instance  TEXT NOT NULL,
  run_id    TEXT NOT NULL,
  call_id   TEXT NOT NULL,
  call      BLOB NOT NULL,
  answer    BLOB,
  bytes     INTEGER NOT NULL CHECK (bytes > 0),
  until     INTEGER NOT NULL,
  UNIQUE (tenant, principal, key)
) STRICT;

CREATE INDEX once_calls_by_age ON once_calls (tenant, principal, id) WHERE state <> 'running';
CREATE INDEX once_calls_by_end ON once_calls (until);
CREATE INDEX once_calls_by_instance ON once_calls (instance) WHERE state = 'running';

-- The idempotent calls and bytes of each caller, and the totals. Maintained by the triggers.
CREATE TABLE once_holders (
  tenant    TEXT NOT NULL,
  principal TEXT NOT NULL,
  calls     INTEGER NOT NULL,
  bytes     INTEGER NOT NULL,
  PRIMARY KEY (tenant, principal)
) STRICT, WITHOUT ROWID;

CREATE INDEX once_holders_by_bytes ON once_holders (bytes);

CREATE TRIGGER once_calls_added AFTER INSERT ON once_calls BEGIN
  INSERT INTO once_holders (tenant, principal, calls, bytes)
    VALUES (new.tenant, new.principal, 1, new.bytes)
    ON CONFLICT (tenant, principal) DO UPDATE SET calls = calls + 1, bytes = bytes + excluded.bytes;
  UPDATE meta SET value = value + 1 WHERE name = 'once_calls';
  UPDATE meta SET value = value + new.bytes WHERE name = 'once_bytes';
END;

CREATE TRIGGER once_calls_weighed AFTER UPDATE OF bytes ON once_calls BEGIN
  UPDATE once_holders SET bytes = bytes + new.bytes - old.bytes
    WHERE tenant = new.tenant AND principal = new.principal;
  UPDATE meta SET value = value + new.bytes - old.bytes WHERE name = 'once_bytes';
END;

CREATE TRIGGER once_calls_removed AFTER DELETE ON once_calls BEGIN
  UPDATE once_holders SET calls = calls - 1, bytes = bytes - old.bytes
    WHERE tenant = old.tenant AND principal = old.principal;
  DELETE FROM once_holders
    WHERE tenant = old.tenant AND principal = old.principal AND calls <= 0;
  UPDATE meta SET value = value - 1 WHERE name = 'once_calls';
  UPDATE meta SET value = value - old.bytes WHERE name = 'once_bytes';
END;

-- Calls of a principal on a day that count towards a quota: of one tool, or of all with ''.
CREATE TABLE quotas (
  day       INTEGER NOT NULL,
  tenant    TEXT NOT NULL,
  principal TEXT NOT NULL,
  tool      TEXT NOT NULL,
  calls     INTEGER NOT NULL CHECK (calls >= 0),
  PRIMARY KEY (day, tenant, principal, tool)
) STRICT, WITHOUT ROWID;

-- Client sessions that have ended, and requests to cancel (`request`, JSON text of an id) that every
-- server must see. `session` is a hash of the session's id. Times are milliseconds since the Unix
-- epoch.
CREATE TABLE session_notices (
  number  INTEGER PRIMARY KEY,
  session BLOB NOT NULL CHECK (length(session) = 32),
  request TEXT,
  opened  INTEGER NOT NULL,
  until   INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX session_ends ON session_notices (session) WHERE request IS NULL;
CREATE INDEX session_notices_by_until ON session_notices (until);

-- What people saved for others of their tenant. `tool` is empty for a view. `content` is marked as plain,
-- or sealed for its place (`seal_places.rs`).
CREATE TABLE saved (
  id        TEXT NOT NULL PRIMARY KEY,
  tenant    TEXT NOT NULL,
  kind      TEXT NOT NULL CHECK (kind IN ('view', 'call')),
  tool      TEXT NOT NULL,
  name      TEXT NOT NULL,
  principal TEXT NOT NULL,
  saved_at  TEXT NOT NULL,
  content   BLOB NOT NULL,
  UNIQUE (tenant, kind, tool, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX saved_by_principal ON saved (tenant, kind, principal);

-- The accounts that people connected. `principal` is empty for a tenant's own. `terms` is JSON text;
-- `sealed` has the tokens, sealed for all other columns (`seal_places.rs`) but `created_at`,
-- `changed_at`, `last_used_at` and the lease. Until `leased_until` only `lease_holder` renews the tokens.
CREATE TABLE account_grants (
  id           TEXT NOT NULL PRIMARY KEY,
  tenant       TEXT NOT NULL,
  principal    TEXT NOT NULL,
  source       TEXT NOT NULL,
  terms        TEXT NOT NULL,
  created_at   TEXT NOT NULL,
  changed_at   TEXT NOT NULL,
  expires_at   TEXT,
  last_used_at TEXT,
  revision     INTEGER NOT NULL CHECK (revision > 0),
  sealed       BLOB NOT NULL,
  lease_holder TEXT,
  leased_until TEXT,
  UNIQUE (tenant, principal, source)
) STRICT, WITHOUT ROWID;
CREATE INDEX account_grants_by_expiry ON account_grants (expires_at);

-- Pending authorizations. `state` is the SHA-256 of the state in the request; `sealed`
-- has the verifier, sealed for all other columns but `created_at`. `owner` is the principal of the
-- grant, or empty for the tenant. `principal`, as in `terms`, is the one that must finish it.
CREATE TABLE pending_authorizations (
  state      BLOB NOT NULL PRIMARY KEY CHECK (length(state) = 32),
  id         TEXT NOT NULL UNIQUE,
  tenant     TEXT NOT NULL,
  owner      TEXT NOT NULL,
  source     TEXT NOT NULL,
  principal  TEXT NOT NULL,
  terms      TEXT NOT NULL,
  created_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  sealed     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX pending_authorizations_by_principal ON pending_authorizations (tenant, principal);
CREATE INDEX pending_authorizations_by_expiry ON pending_authorizations (expires_at);

-- Links at which people connect accounts, for one use. `hash` is the SHA-256 of the secret part of the
-- address. `owner` as above; only `principal` may use the link.
CREATE TABLE connect_links (
  hash       BLOB NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
  tenant     TEXT NOT NULL,
  owner      TEXT NOT NULL,
  source     TEXT NOT NULL,
  principal  TEXT NOT NULL,
  created_at TEXT NOT NULL,
  expires_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX connect_links_by_principal ON connect_links (tenant, principal, created_at);
CREATE INDEX connect_links_by_expiry ON connect_links (expires_at);

-- The clients that authorization servers registered for this gateway. `client_auth` is JSON text;
-- `sealed` has the secret, sealed for all other columns but `created_at`.
CREATE TABLE oauth_clients (
  id           TEXT NOT NULL UNIQUE,
  issuer       TEXT NOT NULL,
  redirect_uri TEXT NOT NULL,
  client_id    TEXT NOT NULL,
  client_auth  TEXT NOT NULL,
  created_at   TEXT NOT NULL,
  expires_at   TEXT,
  sealed       BLOB NOT NULL,
  PRIMARY KEY (issuer, redirect_uri)
) STRICT, WITHOUT ROWID;

-- What the authorization server for MCP clients keeps (`core/src/bridge.rs`). `tenant` and `principal`
-- are empty before somebody has signed in; `sealed` has the value, sealed for all other columns but
-- `created_at`.
CREATE TABLE bridge_items (
  id         TEXT NOT NULL PRIMARY KEY,
  kind       TEXT NOT NULL,
  tenant     TEXT NOT NULL,
  principal  TEXT NOT NULL,
  created_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  revision   INTEGER NOT NULL CHECK (revision > 0),
  sealed     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX bridge_items_by_expiry ON bridge_items (kind, expires_at);
CREATE INDEX bridge_items_by_principal ON bridge_items (tenant, principal);

-- The index of the log, by ranges of positions (`gateway/src/audit/search`). Derived: it can be
-- deleted at any time.
CREATE TABLE segments (
  number INTEGER PRIMARY KEY,
  head   BLOB NOT NULL,
  facts  BLOB NOT NULL,
  ids    BLOB NOT NULL
) STRICT;
