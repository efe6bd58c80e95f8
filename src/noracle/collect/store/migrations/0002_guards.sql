-- A lease that ran out bars its person from every other question about the item: nobody chooses a class by letting another one expire.
CREATE TABLE held (
    item_id {int} NOT NULL REFERENCES item (id), person_id {int} NOT NULL REFERENCES person (id), question_id {int} NOT NULL REFERENCES question (id),
    PRIMARY KEY (item_id, person_id)
);

-- How many questions a person has answered, and which one last.
CREATE INDEX answer_first ON answer (project_id, person_id, id) WHERE revision = 0;
