ALTER TABLE turn ADD COLUMN text_crc INTEGER;
CREATE TABLE changed_row (
  seq INTEGER NOT NULL,
  name VARCHAR NOT NULL,
  pk VARCHAR NOT NULL,
  PRIMARY KEY (seq)
);
CREATE TRIGGER agent_inserted AFTER INSERT ON "agent" BEGIN INSERT INTO changed_row (name, pk) VALUES ('agent', json_array(NEW."id")); END;
CREATE TRIGGER agent_updated AFTER UPDATE ON "agent" BEGIN INSERT INTO changed_row (name, pk) VALUES ('agent', json_array(NEW."id")); END;
CREATE TRIGGER agent_deleted AFTER DELETE ON "agent" BEGIN INSERT INTO changed_row (name, pk) VALUES ('agent', json_array(OLD."id")); END;
CREATE TRIGGER memory_inserted AFTER INSERT ON "memory" BEGIN INSERT INTO changed_row (name, pk) VALUES ('memory', json_array(NEW."id")); END;
CREATE TRIGGER memory_updated AFTER UPDATE ON "memory" BEGIN INSERT INTO changed_row (name, pk) VALUES ('memory', json_array(NEW."id")); END;
CREATE TRIGGER memory_deleted AFTER DELETE ON "memory" BEGIN INSERT INTO changed_row (name, pk) VALUES ('memory', json_array(OLD."id")); END;
CREATE TRIGGER audit_inserted AFTER INSERT ON "audit" BEGIN INSERT INTO changed_row (name, pk) VALUES ('audit', json_array(NEW."id")); END;
CREATE TRIGGER audit_updated AFTER UPDATE ON "audit" BEGIN INSERT INTO changed_row (name, pk) VALUES ('audit', json_array(NEW."id")); END;
CREATE TRIGGER audit_deleted AFTER DELETE ON "audit" BEGIN INSERT INTO changed_row (name, pk) VALUES ('audit', json_array(OLD."id")); END;
CREATE TRIGGER content_inserted AFTER INSERT ON "content" BEGIN INSERT INTO changed_row (name, pk) VALUES ('content', json_array(NEW."sha256")); END;
CREATE TRIGGER content_updated AFTER UPDATE ON "content" BEGIN INSERT INTO changed_row (name, pk) VALUES ('content', json_array(NEW."sha256")); END;
CREATE TRIGGER content_deleted AFTER DELETE ON "content" BEGIN INSERT INTO changed_row (name, pk) VALUES ('content', json_array(OLD."sha256")); END;
CREATE TRIGGER profile_section_inserted AFTER INSERT ON "profile_section" BEGIN INSERT INTO changed_row (name, pk) VALUES ('profile_section', json_array(NEW."agent_id", NEW."section")); END;
CREATE TRIGGER profile_section_updated AFTER UPDATE ON "profile_section" BEGIN INSERT INTO changed_row (name, pk) VALUES ('profile_section', json_array(NEW."agent_id", NEW."section")); END;
CREATE TRIGGER profile_section_deleted AFTER DELETE ON "profile_section" BEGIN INSERT INTO changed_row (name, pk) VALUES ('profile_section', json_array(OLD."agent_id", OLD."section")); END;
CREATE TRIGGER grant_inserted AFTER INSERT ON "grant" BEGIN INSERT INTO changed_row (name, pk) VALUES ('grant', json_array(NEW."id")); END;
CREATE TRIGGER grant_updated AFTER UPDATE ON "grant" BEGIN INSERT INTO changed_row (name, pk) VALUES ('grant', json_array(NEW."id")); END;
CREATE TRIGGER grant_deleted AFTER DELETE ON "grant" BEGIN INSERT INTO changed_row (name, pk) VALUES ('grant', json_array(OLD."id")); END;
CREATE TRIGGER core_file_inserted AFTER INSERT ON "core_file" BEGIN INSERT INTO changed_row (name, pk) VALUES ('core_file', json_array(NEW."agent_id")); END;
CREATE TRIGGER core_file_updated AFTER UPDATE ON "core_file" BEGIN INSERT INTO changed_row (name, pk) VALUES ('core_file', json_array(NEW."agent_id")); END;
CREATE TRIGGER core_file_deleted AFTER DELETE ON "core_file" BEGIN INSERT INTO changed_row (name, pk) VALUES ('core_file', json_array(OLD."agent_id")); END;
CREATE TRIGGER job_mode_inserted AFTER INSERT ON "job_mode" BEGIN INSERT INTO changed_row (name, pk) VALUES ('job_mode', json_array(NEW."agent_id", NEW."kind")); END;
CREATE TRIGGER job_mode_updated AFTER UPDATE ON "job_mode" BEGIN INSERT INTO changed_row (name, pk) VALUES ('job_mode', json_array(NEW."agent_id", NEW."kind")); END;
CREATE TRIGGER job_mode_deleted AFTER DELETE ON "job_mode" BEGIN INSERT INTO changed_row (name, pk) VALUES ('job_mode', json_array(OLD."agent_id", OLD."kind")); END;
CREATE TRIGGER job_run_inserted AFTER INSERT ON "job_run" WHEN (NEW.finished_at IS NOT NULL OR NEW.state = 'proposed') BEGIN INSERT INTO changed_row (name, pk) VALUES ('job_run', json_array(NEW."id")); END;
CREATE TRIGGER job_run_updated AFTER UPDATE ON "job_run" WHEN (NEW.finished_at IS NOT NULL OR NEW.state = 'proposed') BEGIN INSERT INTO changed_row (name, pk) VALUES ('job_run', json_array(NEW."id")); END;
CREATE TRIGGER job_run_deleted AFTER DELETE ON "job_run" BEGIN INSERT INTO changed_row (name, pk) VALUES ('job_run', json_array(OLD."id")); END;
