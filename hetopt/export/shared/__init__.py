"""What several launchers use."""
