-- Calls under keys of their callers, and what they were answered. `key` is a hash of what the caller
-- said, `call` tells the call it stands for and `answer` the answer, both sealed. A call that runs has
-- the instance that runs it; `lost` is one whose process ended before it did. `until` and `day` count
-- from the Unix epoch, in milliseconds and in days of UTC.
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

-- How much of that each caller has, and all of them together. Kept by the triggers.
CREATE TABLE once_holders (
  tenant    TEXT NOT NULL,
  principal TEXT NOT NULL,
  calls     INTEGER NOT NULL,
  bytes     INTEGER NOT NULL,
  PRIMARY KEY (tenant, principal)
) STRICT, WITHOUT ROWID;

CREATE INDEX once_holders_by_bytes ON once_holders (bytes);

INSERT INTO meta (name, value) VALUES ('once_calls', 0), ('once_bytes', 0);

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

-- Calls of a principal on a day that count towards a quota: of one tool, or, with '', of all.
CREATE TABLE quotas (
  day       INTEGER NOT NULL,
  tenant    TEXT NOT NULL,
  principal TEXT NOT NULL,
  tool      TEXT NOT NULL,
  calls     INTEGER NOT NULL CHECK (calls >= 0),
  PRIMARY KEY (day, tenant, principal, tool)
) STRICT, WITHOUT ROWID;
