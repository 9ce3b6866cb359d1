CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;

CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;

INSERT INTO vault_size SELECT 1, count(*), coalesce(sum(octet_length(text)), 0), coalesce(sum(typeof(text) = 'blob'), 0) FROM turn WHERE octet_length(text) > 0;

CREATE TRIGGER turn_text_added AFTER INSERT ON turn WHEN octet_length(NEW.text) > 0 BEGIN UPDATE vault_size SET turns = turns + 1, bytes = bytes + octet_length(NEW.text), compressed = compressed + (typeof(NEW.text) = 'blob'); END;

CREATE TRIGGER turn_text_changed AFTER UPDATE OF text ON turn BEGIN UPDATE vault_size SET turns = turns + (octet_length(NEW.text) > 0) - (octet_length(OLD.text) > 0), bytes = bytes + octet_length(NEW.text) - octet_length(OLD.text), compressed = compressed + (typeof(NEW.text) = 'blob') - (typeof(OLD.text) = 'blob'); END;
