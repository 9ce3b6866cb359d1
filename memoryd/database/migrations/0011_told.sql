ALTER TABLE session_summary ADD COLUMN told VARCHAR;
