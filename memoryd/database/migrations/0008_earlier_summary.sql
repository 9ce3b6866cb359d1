ALTER TABLE session_summary ADD COLUMN earlier VARCHAR;
