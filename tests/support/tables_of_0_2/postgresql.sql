CREATE TABLE installation (
    id SERIAL NOT NULL CONSTRAINT ck_installation_single CHECK (id = 1),
    broadcaster_key VARCHAR(32) NOT NULL,
    created_us BIGINT NOT NULL,
    broadcaster_secret VARCHAR(64) DEFAULT '' NOT NULL,
    key VARCHAR(32) DEFAULT '' NOT NULL,
    relay_secret VARCHAR(64) DEFAULT '' NOT NULL,
    CONSTRAINT pk_installation PRIMARY KEY (id)
);
CREATE TABLE projects (
    id SERIAL NOT NULL,
    key VARCHAR(12) NOT NULL,
    name VARCHAR(255) NOT NULL,
    created_us BIGINT NOT NULL,
    updated_us BIGINT DEFAULT '0' NOT NULL,
    settings TEXT DEFAULT '{}' NOT NULL,
    version BIGINT DEFAULT '1' NOT NULL,
    slate VARCHAR(64),
    origins TEXT DEFAULT '' NOT NULL,
    removed_us BIGINT,
    CONSTRAINT pk_projects PRIMARY KEY (id),
    CONSTRAINT uq_projects_key UNIQUE (key)
);
CREATE TABLE notices (
    id SERIAL NOT NULL,
    channel VARCHAR(200) NOT NULL,
    event VARCHAR(200) NOT NULL,
    body TEXT NOT NULL,
    besides VARCHAR(32),
    created_us BIGINT NOT NULL,
    CONSTRAINT pk_notices PRIMARY KEY (id)
);
CREATE TABLE commands (
    id SERIAL NOT NULL,
    stream_id INTEGER NOT NULL,
    kind VARCHAR(40) NOT NULL,
    facts TEXT NOT NULL,
    created_us BIGINT NOT NULL,
    answered_us BIGINT,
    answer TEXT,
    CONSTRAINT pk_commands PRIMARY KEY (id)
);
CREATE TABLE hosts (
    id SERIAL NOT NULL,
    name VARCHAR(255) NOT NULL,
    role VARCHAR(20) NOT NULL,
    address VARCHAR(255),
    version VARCHAR(64) NOT NULL,
    started_us BIGINT NOT NULL,
    seen_us BIGINT NOT NULL,
    steady_us BIGINT NOT NULL,
    capacity INTEGER,
    CONSTRAINT pk_hosts PRIMARY KEY (id),
    CONSTRAINT uq_hosts_name UNIQUE (name)
);
CREATE TABLE stream_owners (
    stream_id INTEGER NOT NULL,
    host_id INTEGER,
    generation INTEGER NOT NULL,
    taken_us BIGINT NOT NULL,
    CONSTRAINT pk_stream_owners PRIMARY KEY (stream_id)
);
CREATE TABLE totals (
    project_id INTEGER NOT NULL,
    kind VARCHAR(40) NOT NULL,
    number INTEGER NOT NULL,
    CONSTRAINT pk_totals PRIMARY KEY (project_id, kind),
    CONSTRAINT fk_totals_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE CASCADE
);
CREATE TABLE tokens (
    id SERIAL NOT NULL,
    digest VARCHAR(64) NOT NULL,
    name VARCHAR(255) NOT NULL,
    project_id INTEGER,
    write BOOLEAN NOT NULL,
    created_us BIGINT NOT NULL,
    revoked_us BIGINT,
    created_by INTEGER,
    CONSTRAINT pk_tokens PRIMARY KEY (id),
    CONSTRAINT uq_tokens_digest UNIQUE (digest),
    CONSTRAINT fk_tokens_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE CASCADE
);
CREATE TABLE tags (
    id SERIAL NOT NULL,
    project_id INTEGER NOT NULL,
    name VARCHAR(255) NOT NULL,
    name_fold TEXT COLLATE "C" NOT NULL,
    active BOOLEAN NOT NULL,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL,
    version BIGINT NOT NULL,
    CONSTRAINT pk_tags PRIMARY KEY (id),
    CONSTRAINT uq_tags_project_id_name_fold UNIQUE (project_id, name_fold),
    CONSTRAINT fk_tags_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE CASCADE
);
CREATE TABLE categories (
    id SERIAL NOT NULL,
    project_id INTEGER NOT NULL,
    name VARCHAR(255) NOT NULL,
    name_fold TEXT COLLATE "C" NOT NULL,
    active BOOLEAN NOT NULL,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL,
    version BIGINT NOT NULL,
    CONSTRAINT pk_categories PRIMARY KEY (id),
    CONSTRAINT uq_categories_project_id_name_fold UNIQUE (project_id, name_fold),
    CONSTRAINT fk_categories_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE CASCADE
);
CREATE TABLE players (
    id SERIAL NOT NULL,
    project_id INTEGER NOT NULL,
    name VARCHAR(255) NOT NULL,
    name_fold TEXT COLLATE "C" NOT NULL,
    options TEXT NOT NULL,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL,
    version BIGINT NOT NULL,
    CONSTRAINT pk_players PRIMARY KEY (id),
    CONSTRAINT fk_players_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE CASCADE
);
CREATE TABLE events (
    id SERIAL NOT NULL,
    project_id INTEGER NOT NULL,
    subject VARCHAR(12) NOT NULL,
    kind VARCHAR(40) NOT NULL,
    facts TEXT NOT NULL,
    token_id INTEGER,
    created_us BIGINT NOT NULL,
    number INTEGER,
    CONSTRAINT pk_events PRIMARY KEY (id),
    CONSTRAINT fk_events_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE CASCADE
);
CREATE TABLE recordings (
    id SERIAL NOT NULL,
    project_id INTEGER NOT NULL,
    stream_id INTEGER NOT NULL,
    stream_hash VARCHAR(12) NOT NULL,
    run VARCHAR(32) NOT NULL,
    hash VARCHAR(12) NOT NULL,
    facts TEXT NOT NULL,
    created_us BIGINT NOT NULL,
    CONSTRAINT pk_recordings PRIMARY KEY (id),
    CONSTRAINT uq_recordings_stream_hash_run UNIQUE (stream_hash, run),
    CONSTRAINT fk_recordings_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE CASCADE,
    CONSTRAINT uq_recordings_hash UNIQUE (hash)
);
CREATE TABLE sessions (
    id VARCHAR(64) NOT NULL,
    token_id INTEGER NOT NULL,
    created_us BIGINT NOT NULL,
    seen_us BIGINT NOT NULL,
    expires_us BIGINT NOT NULL,
    CONSTRAINT pk_sessions PRIMARY KEY (id),
    CONSTRAINT fk_sessions_token_id FOREIGN KEY(token_id) REFERENCES tokens (id) ON DELETE CASCADE
);
CREATE TABLE sign_in_links (
    id VARCHAR(64) NOT NULL,
    token_id INTEGER NOT NULL,
    expires_us BIGINT NOT NULL,
    CONSTRAINT pk_sign_in_links PRIMARY KEY (id),
    CONSTRAINT fk_sign_in_links_token_id FOREIGN KEY(token_id) REFERENCES tokens (id) ON DELETE CASCADE
);
CREATE TABLE streams (
    id SERIAL NOT NULL,
    project_id INTEGER NOT NULL,
    hash VARCHAR(12) NOT NULL,
    secret VARCHAR(36) NOT NULL,
    secret_digest VARCHAR(64) NOT NULL,
    title VARCHAR(255) NOT NULL,
    title_fold TEXT COLLATE "C" NOT NULL,
    description TEXT NOT NULL,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL,
    published BOOLEAN NOT NULL,
    published_us BIGINT,
    hidden BOOLEAN NOT NULL,
    live BOOLEAN NOT NULL,
    processing BOOLEAN NOT NULL,
    receiving_count INTEGER NOT NULL,
    on_air INTEGER,
    no_audio BOOLEAN NOT NULL,
    next_backup INTEGER NOT NULL,
    version BIGINT NOT NULL,
    category_id INTEGER,
    player_id INTEGER,
    countries TEXT DEFAULT '' NOT NULL,
    settings TEXT DEFAULT '{}' NOT NULL,
    paused BOOLEAN DEFAULT false NOT NULL,
    event_number INTEGER DEFAULT '0' NOT NULL,
    poster_labels VARCHAR(255) DEFAULT '' NOT NULL,
    image_us BIGINT,
    slate VARCHAR(64),
    image_width INTEGER DEFAULT '0' NOT NULL,
    image_height INTEGER DEFAULT '0' NOT NULL,
    CONSTRAINT pk_streams PRIMARY KEY (id),
    CONSTRAINT fk_streams_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE CASCADE,
    CONSTRAINT uq_streams_hash UNIQUE (hash),
    CONSTRAINT uq_streams_secret_digest UNIQUE (secret_digest),
    CONSTRAINT fk_streams_category_id FOREIGN KEY(category_id) REFERENCES categories (id) ON DELETE SET NULL,
    CONSTRAINT fk_streams_player_id FOREIGN KEY(player_id) REFERENCES players (id) ON DELETE SET NULL
);
CREATE TABLE videos (
    id SERIAL NOT NULL,
    project_id INTEGER NOT NULL,
    hash VARCHAR(12) NOT NULL,
    title VARCHAR(255),
    file_title VARCHAR(255) NOT NULL,
    title_fold TEXT COLLATE "C" NOT NULL,
    description TEXT NOT NULL,
    name VARCHAR(255) NOT NULL,
    size BIGINT NOT NULL,
    length_us BIGINT NOT NULL,
    width INTEGER NOT NULL,
    height INTEGER NOT NULL,
    state VARCHAR(12) NOT NULL,
    phase VARCHAR(12) NOT NULL,
    progress INTEGER NOT NULL,
    eta INTEGER NOT NULL,
    reason TEXT NOT NULL,
    warnings TEXT NOT NULL,
    uploaded_us BIGINT,
    transcoding_us BIGINT,
    completed_us BIGINT,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL,
    published BOOLEAN NOT NULL,
    published_us BIGINT,
    hidden BOOLEAN NOT NULL,
    category_id INTEGER,
    player_id INTEGER,
    countries TEXT NOT NULL,
    source VARCHAR(255),
    generation INTEGER NOT NULL,
    media VARCHAR(64),
    posters VARCHAR(64),
    poster_labels VARCHAR(255) NOT NULL,
    image_us BIGINT,
    storage_size BIGINT NOT NULL,
    version BIGINT NOT NULL,
    expires_us BIGINT,
    previews VARCHAR(64),
    subtitles TEXT DEFAULT '[]' NOT NULL,
    attempt INTEGER DEFAULT '0' NOT NULL,
    CONSTRAINT pk_videos PRIMARY KEY (id),
    CONSTRAINT fk_videos_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE CASCADE,
    CONSTRAINT uq_videos_hash UNIQUE (hash),
    CONSTRAINT fk_videos_category_id FOREIGN KEY(category_id) REFERENCES categories (id) ON DELETE SET NULL,
    CONSTRAINT fk_videos_player_id FOREIGN KEY(player_id) REFERENCES players (id) ON DELETE SET NULL
);
CREATE TABLE stream_backups (
    id SERIAL NOT NULL,
    stream_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    live BOOLEAN NOT NULL,
    CONSTRAINT pk_stream_backups PRIMARY KEY (id),
    CONSTRAINT uq_stream_backups_stream_id_number UNIQUE (stream_id, number),
    CONSTRAINT fk_stream_backups_stream_id FOREIGN KEY(stream_id) REFERENCES streams (id) ON DELETE CASCADE
);
CREATE TABLE stream_resolutions (
    stream_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    active BOOLEAN NOT NULL,
    CONSTRAINT pk_stream_resolutions PRIMARY KEY (stream_id, number),
    CONSTRAINT fk_stream_resolutions_stream_id FOREIGN KEY(stream_id) REFERENCES streams (id) ON DELETE CASCADE
);
CREATE TABLE stream_tags (
    stream_id INTEGER NOT NULL,
    tag_id INTEGER NOT NULL,
    CONSTRAINT pk_stream_tags PRIMARY KEY (stream_id, tag_id),
    CONSTRAINT fk_stream_tags_stream_id FOREIGN KEY(stream_id) REFERENCES streams (id) ON DELETE CASCADE,
    CONSTRAINT fk_stream_tags_tag_id FOREIGN KEY(tag_id) REFERENCES tags (id) ON DELETE CASCADE
);
CREATE TABLE video_tags (
    video_id INTEGER NOT NULL,
    tag_id INTEGER NOT NULL,
    CONSTRAINT pk_video_tags PRIMARY KEY (video_id, tag_id),
    CONSTRAINT fk_video_tags_video_id FOREIGN KEY(video_id) REFERENCES videos (id) ON DELETE CASCADE,
    CONSTRAINT fk_video_tags_tag_id FOREIGN KEY(tag_id) REFERENCES tags (id) ON DELETE CASCADE
);
CREATE TABLE video_resolutions (
    video_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    width INTEGER NOT NULL,
    height INTEGER NOT NULL,
    transcoded BOOLEAN NOT NULL,
    size BIGINT NOT NULL,
    transcode_seconds INTEGER NOT NULL,
    CONSTRAINT pk_video_resolutions PRIMARY KEY (video_id, number),
    CONSTRAINT fk_video_resolutions_video_id FOREIGN KEY(video_id) REFERENCES videos (id) ON DELETE CASCADE
);
CREATE TABLE jobs (
    id SERIAL NOT NULL,
    kind VARCHAR(20) NOT NULL,
    video_id INTEGER NOT NULL,
    state VARCHAR(12) NOT NULL,
    attempt INTEGER NOT NULL,
    owner VARCHAR(64),
    leased_until_us BIGINT,
    run_after_us BIGINT NOT NULL,
    facts TEXT NOT NULL,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL,
    project_id INTEGER DEFAULT '0' NOT NULL,
    CONSTRAINT pk_jobs PRIMARY KEY (id),
    CONSTRAINT fk_jobs_video_id FOREIGN KEY(video_id) REFERENCES videos (id) ON DELETE CASCADE
);
CREATE TABLE recorded_times (
    video_id INTEGER NOT NULL,
    stream_id INTEGER NOT NULL,
    from_us BIGINT NOT NULL,
    to_us BIGINT NOT NULL,
    CONSTRAINT pk_recorded_times PRIMARY KEY (video_id),
    CONSTRAINT fk_recorded_times_video_id FOREIGN KEY(video_id) REFERENCES videos (id) ON DELETE CASCADE
);
CREATE TABLE upload_links (
    id SERIAL NOT NULL,
    project_id INTEGER NOT NULL,
    digest VARCHAR(64) NOT NULL,
    facts TEXT NOT NULL,
    most_bytes BIGINT NOT NULL,
    expires_us BIGINT NOT NULL,
    used_us BIGINT,
    created_us BIGINT NOT NULL,
    video_id INTEGER,
    CONSTRAINT pk_upload_links PRIMARY KEY (id),
    CONSTRAINT fk_upload_links_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE CASCADE,
    CONSTRAINT uq_upload_links_digest UNIQUE (digest),
    CONSTRAINT fk_upload_links_video_id FOREIGN KEY(video_id) REFERENCES videos (id) ON DELETE CASCADE
);
CREATE TABLE imports (
    video_id INTEGER NOT NULL,
    url TEXT NOT NULL,
    token_id INTEGER,
    created_us BIGINT NOT NULL,
    received BIGINT DEFAULT '0' NOT NULL,
    validator TEXT,
    CONSTRAINT pk_imports PRIMARY KEY (video_id),
    CONSTRAINT fk_imports_video_id FOREIGN KEY(video_id) REFERENCES videos (id) ON DELETE CASCADE
);
CREATE TABLE uploads (
    id SERIAL NOT NULL,
    project_id INTEGER NOT NULL,
    link_id INTEGER,
    name VARCHAR(64) NOT NULL,
    length BIGINT,
    received BIGINT NOT NULL,
    writer VARCHAR(32),
    most_bytes BIGINT NOT NULL,
    facts TEXT NOT NULL,
    state VARCHAR(12) NOT NULL,
    video_id INTEGER,
    created_us BIGINT NOT NULL,
    expires_us BIGINT NOT NULL,
    replaces BOOLEAN DEFAULT false NOT NULL,
    held_until_us BIGINT,
    CONSTRAINT pk_uploads PRIMARY KEY (id),
    CONSTRAINT fk_uploads_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE CASCADE,
    CONSTRAINT fk_uploads_link_id FOREIGN KEY(link_id) REFERENCES upload_links (id) ON DELETE CASCADE,
    CONSTRAINT uq_uploads_name UNIQUE (name),
    CONSTRAINT fk_uploads_video_id FOREIGN KEY(video_id) REFERENCES videos (id) ON DELETE SET NULL
);
CREATE TABLE spans (
    id SERIAL NOT NULL,
    job_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    state VARCHAR(12) NOT NULL,
    attempt INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    owner VARCHAR(64),
    leased_until_us BIGINT,
    run_after_us BIGINT NOT NULL,
    cost INTEGER NOT NULL,
    done INTEGER NOT NULL,
    facts TEXT NOT NULL,
    outcome TEXT,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL,
    project_id INTEGER DEFAULT '0' NOT NULL,
    CONSTRAINT pk_spans PRIMARY KEY (id),
    CONSTRAINT uq_spans_job_id_number UNIQUE (job_id, number),
    CONSTRAINT fk_spans_job_id FOREIGN KEY(job_id) REFERENCES jobs (id) ON DELETE CASCADE
);
CREATE TABLE upload_pieces (
    upload_id INTEGER NOT NULL,
    start BIGINT NOT NULL,
    size BIGINT NOT NULL,
    token VARCHAR(32) NOT NULL,
    CONSTRAINT pk_upload_pieces PRIMARY KEY (upload_id, start),
    CONSTRAINT fk_upload_pieces_upload_id FOREIGN KEY(upload_id) REFERENCES uploads (id) ON DELETE CASCADE
);
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE INDEX ix_categories_project_id_id ON categories (project_id, id);
CREATE INDEX ix_commands_answered_us_id ON commands (answered_us, id);
CREATE INDEX ix_events_project_id_created_us ON events (project_id, created_us);
CREATE INDEX ix_events_project_id_id ON events (project_id, id);
CREATE INDEX ix_events_project_id_subject_id ON events (project_id, subject, id);
CREATE INDEX ix_jobs_queued ON jobs (kind, project_id, run_after_us, id) WHERE state = 'queued';
CREATE INDEX ix_jobs_running ON jobs (kind, leased_until_us) WHERE state = 'running';
CREATE INDEX ix_jobs_video_id ON jobs (video_id);
CREATE INDEX ix_players_project_id_id ON players (project_id, id);
CREATE INDEX ix_recorded_times_stream_id_from_us ON recorded_times (stream_id, from_us);
CREATE INDEX ix_sessions_token_id_created_us ON sessions (token_id, created_us);
CREATE INDEX ix_sign_in_links_token_id ON sign_in_links (token_id);
CREATE INDEX ix_spans_queued ON spans (project_id, job_id, number) WHERE state = 'queued';
CREATE INDEX ix_spans_running ON spans (leased_until_us) WHERE state = 'running';
CREATE INDEX ix_stream_owners_host_id ON stream_owners (host_id);
CREATE INDEX ix_stream_tags_tag_id ON stream_tags (tag_id);
CREATE INDEX ix_streams_category_id ON streams (category_id);
CREATE INDEX ix_streams_player_id ON streams (player_id);
CREATE INDEX ix_streams_project_id_id ON streams (project_id, id);
CREATE INDEX ix_streams_project_id_title_fold ON streams (project_id, title_fold, id);
CREATE INDEX ix_tags_project_id_id ON tags (project_id, id);
CREATE INDEX ix_upload_links_project_id ON upload_links (project_id);
CREATE INDEX ix_upload_links_video_id ON upload_links (video_id);
CREATE INDEX ix_uploads_expires_us ON uploads (expires_us);
CREATE INDEX ix_uploads_link_id ON uploads (link_id);
CREATE INDEX ix_uploads_project_id ON uploads (project_id);
CREATE INDEX ix_uploads_video_id ON uploads (video_id);
CREATE INDEX ix_video_tags_tag_id ON video_tags (tag_id);
CREATE INDEX ix_videos_category_id ON videos (category_id);
CREATE INDEX ix_videos_expires_us ON videos (expires_us);
CREATE INDEX ix_videos_player_id ON videos (player_id);
CREATE INDEX ix_videos_project_id_created_us_id ON videos (project_id, created_us, id);
CREATE INDEX ix_videos_project_id_id ON videos (project_id, id);
CREATE INDEX ix_videos_project_id_phase_id ON videos (project_id, phase, id);
INSERT INTO alembic_version VALUES ('0016.2');
