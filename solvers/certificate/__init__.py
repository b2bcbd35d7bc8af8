"""The claims of a proof, and searching the claimed programs again."""
