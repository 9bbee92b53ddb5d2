-- When a key was used last, as text like every moment here, and which key it follows.
ALTER TABLE keys ADD COLUMN last_used_at TEXT;
ALTER TABLE keys ADD COLUMN replaces TEXT;
